# The same program in Lightning: python -P examples/table/lightning.py fit
# -P: otherwise `import lightning` finds this file.
from pathlib import Path

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import BasePredictionWriter, EarlyStopping, ModelCheckpoint
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split


class Strength(L.LightningModule):
    def __init__(self, hidden: int = 64, lr: float = 0.005):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def strength(self, batch):
        return self.net(batch[0]).squeeze(1)

    def training_step(self, batch, batch_idx):
        loss = F.mse_loss(self.strength(batch), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", F.mse_loss(self.strength(batch), batch[1]), prog_bar=True)

    def test_step(self, batch, batch_idx):
        self.log("test_mse", F.mse_loss(self.strength(batch), batch[1]))
        self.log("test_mae", F.l1_loss(self.strength(batch), batch[1]))

    def predict_step(self, batch, batch_idx):
        return self.strength(batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class Table(L.LightningDataModule):
    def __init__(
        self, folder: str = "examples/table/data", predict_path: str = "examples/table/data/test.csv", batch_size: int = 32
    ):
        super().__init__()
        self.save_hyperparameters()
        self.mean = self.deviation = None

    def read(self, path):
        table = torch.from_numpy(np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.float32))
        return TensorDataset(table[:, :8], table[:, 8])

    def setup(self, stage):
        table = self.read(f"{self.hparams.folder}/train.csv")
        self.train, self.val = random_split(table, [0.9, 0.1], torch.Generator().manual_seed(42))
        if self.mean is None:
            self.deviation, self.mean = torch.std_mean(self.train[:][0], dim=0, correction=0)

    def loader(self, rows, shuffle=False):
        features, strength = rows[:]
        rows = TensorDataset((features - self.mean) / self.deviation, strength)
        return DataLoader(rows, batch_size=self.hparams.batch_size, shuffle=shuffle)

    def train_dataloader(self):
        return self.loader(self.train, shuffle=True)

    def val_dataloader(self):
        return self.loader(self.val)

    def test_dataloader(self):
        return self.loader(self.read(f"{self.hparams.folder}/test.csv"))

    def predict_dataloader(self):
        return self.loader(self.read(self.hparams.predict_path))

    def state_dict(self):
        return {"mean": self.mean, "deviation": self.deviation}

    def load_state_dict(self, state):
        self.mean, self.deviation = state["mean"], state["deviation"]


class Predictions(BasePredictionWriter):
    def write_on_epoch_end(self, trainer, pl_module, predictions, batch_indices):
        path = Path(trainer.log_dir, "predictions.csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savetxt(path, torch.cat(predictions).numpy(), header="strength", comments="", fmt="%.6f")


if __name__ == "__main__":
    torch.set_num_threads(1)
    LightningCLI(
        Strength,
        Table,
        seed_everything_default=1,
        trainer_defaults={
            "max_epochs": 300,
            "accelerator": "cpu",
            "log_every_n_steps": 20,
            "logger": {"class_path": "CSVLogger", "init_args": {"save_dir": ".", "name": "logs"}},
            "callbacks": [
                ModelCheckpoint(monitor="val_loss"),
                EarlyStopping(monitor="val_loss", patience=20),
                Predictions("epoch"),
            ],
        },
    )
