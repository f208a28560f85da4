# The program in Lightning: python -P examples/transfer/lightning.py fit
# -P: otherwise `import lightning` finds this file.
import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, random_split


class Digits(L.LightningDataModule):
    def __init__(self, path: str = "examples/digits/data/digits.csv", val_fraction: float = 0.1, batch_size: int = 16):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        table = torch.from_numpy(np.loadtxt(self.hparams.path, delimiter=",", dtype=np.float32))
        data = TensorDataset(table[:, :64].view(-1, 1, 8, 8) / 16, table[:, 64].long())
        fractions = [1 - self.hparams.val_fraction, self.hparams.val_fraction]
        self.train, self.val = random_split(data, fractions, torch.Generator().manual_seed(42))

    def train_dataloader(self):
        return DataLoader(self.train, self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, self.hparams.batch_size)


class Transfer(L.LightningModule):
    def __init__(self, weights: str | None = None, unfreeze_epoch: int = 3, lr: float = 0.002):
        super().__init__()
        self.save_hyperparameters()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        )
        self.head = nn.Linear(512, 10)

    def setup(self, stage):
        if stage == "fit" and self.hparams.weights:
            state = torch.load(self.hparams.weights)["state_dict"]
            self.backbone.load_state_dict({k[9:]: v for k, v in state.items() if k.startswith("backbone.")})
            self.backbone.requires_grad_(False)

    def on_train_epoch_start(self):
        if self.current_epoch == self.hparams.unfreeze_epoch:
            self.backbone.requires_grad_(True)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = cross_entropy(self.head(self.backbone(images)), labels)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        hits = self.head(self.backbone(images)).argmax(1) == labels
        self.log("val_acc", hits.float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.hparams.lr)


if __name__ == "__main__":
    LightningCLI(
        Transfer,
        Digits,
        seed_everything_default=42,
        trainer_defaults={
            "max_epochs": 6,
            "accelerator": "cpu",
            "log_every_n_steps": 5,
            "callbacks": ModelCheckpoint(save_last=True),
            "logger": {"class_path": "CSVLogger", "init_args": {"save_dir": "logs"}},
        },
    )
