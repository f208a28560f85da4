# The program in Lightning: python -P examples/gan/lightning.py fit
# -P: otherwise `import lightning` finds this file.
from pathlib import Path

import lightning as L
import numpy as np
import torch
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Digits(L.LightningDataModule):
    def __init__(self, path: str = "examples/digits/data/digits.csv", batch_size: int = 64):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        table = np.loadtxt(self.hparams.path, delimiter=",", dtype=np.float32)
        self.images = TensorDataset(torch.from_numpy(table[:, :64]) / 16)

    def train_dataloader(self):
        return DataLoader(self.images, self.hparams.batch_size, shuffle=True)


class Gan(L.LightningModule):
    def __init__(self, lr: float = 0.002, sample_every: int = 10):
        super().__init__()
        self.save_hyperparameters()
        self.generator = nn.Sequential(
            nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64), nn.Sigmoid()
        )
        self.discriminator = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)
        )
        self.register_buffer("noise", torch.randn(64, 16))
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        (real,) = batch
        made = self.generator(torch.randn(len(real), 16, device=real.device))
        generator, discriminator = self.optimizers()
        d_loss = self.loss(real, 1) + self.loss(made.detach(), 0)
        self.step(discriminator, d_loss)
        g_loss = self.loss(made, 1)
        self.step(generator, g_loss)
        self.log_dict({"d_loss": d_loss, "g_loss": g_loss}, prog_bar=True)

    def configure_optimizers(self):
        return [
            torch.optim.Adam(network.parameters(), self.hparams.lr, betas=(0.5, 0.999))
            for network in (self.generator, self.discriminator)
        ]

    def on_train_epoch_end(self):
        if not self.trainer.is_global_zero or (self.current_epoch + 1) % self.hparams.sample_every:
            return
        rows = self.generator(self.noise).view(8, 8, 8, 8).transpose(1, 2) * 255
        path = Path(self.trainer.log_dir, f"samples_{self.current_epoch}.pgm")
        path.write_bytes(b"P5 64 64 255\n" + rows.cpu().byte().numpy().tobytes())

    def loss(self, images, real):
        scores = self.discriminator(images)
        return nn.functional.binary_cross_entropy_with_logits(scores, torch.full_like(scores, real))

    def step(self, optimizer, loss):
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()


if __name__ == "__main__":
    LightningCLI(
        Gan,
        Digits,
        seed_everything_default=42,
        trainer_defaults={
            "max_epochs": 60,
            "accelerator": "cpu",
            "log_every_n_steps": 10,
            "logger": {"class_path": "CSVLogger", "init_args": {"save_dir": "logs"}},
            "strategy": "ddp_find_unused_parameters_true",
        },
    )
