import random
import sys

import h5py
import lightning as L
import pyarrow.parquet as pq
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class TripRows(IterableDataset):
    """Rows of a Parquet file with their signals in an HDF5 file; shuffled by groups of rows and a window."""

    def __init__(self, path: str, signals: str, window: int = 0):
        self.path, self.signals, self.window = path, signals, window

    def rows(self):
        file = pq.ParquetFile(self.path)
        groups = list(range(file.num_row_groups))
        if self.window:
            random.shuffle(groups)
        worker = get_worker_info()
        for group in groups[worker.id :: worker.num_workers] if worker else groups:
            yield from file.read_row_group(group).to_pylist()

    def shuffled(self):
        waiting = []
        for row in self.rows():
            waiting.append(row)
            if len(waiting) > self.window:
                yield waiting.pop(random.randrange(len(waiting)))
        random.shuffle(waiting)
        yield from waiting

    def __iter__(self):
        with h5py.File(self.signals) as signals:
            for row in self.shuffled() if self.window else self.rows():
                trip = torch.tensor([row["distance"] / 20, float(row["city"] == "Rome")])
                yield trip, torch.from_numpy(signals["speed"][row["trip"]]), row["late"]


class Trips(L.LightningModule):
    def __init__(self, train: str, test: str, signals: str, hidden: int = 32, lr: float = 0.005):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(2 + 32, hidden), nn.ReLU(), nn.Linear(hidden, 2))

    def forward(self, trip, speed):
        return self.net(torch.cat([trip, speed.float() / 30], 1))

    def training_step(self, batch, batch_idx):
        trip, speed, late = batch
        loss = nn.functional.cross_entropy(self(trip, speed), late)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def test_step(self, batch, batch_idx):
        trip, speed, late = batch
        self.log("test_acc", (self(trip, speed).argmax(1) == late).float().mean(), batch_size=len(late))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        return DataLoader(TripRows(self.hparams.train, self.hparams.signals, window=100), batch_size=20, num_workers=2)

    def test_dataloader(self):
        return DataLoader(TripRows(self.hparams.test, self.hparams.signals), batch_size=20)


if __name__ == "__main__":
    L.seed_everything(1)
    model = Trips(*sys.argv[1:])
    trainer = L.Trainer(
        max_epochs=40, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    trainer.fit(model)
    print(f"test_acc {trainer.test(model, verbose=False)[0]['test_acc']:.4f}")
