import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchmetrics.functional import accuracy


class Digits(L.LightningModule):
    def __init__(self, channels: int = 16, dropout: float = 0.25, lr: float = 0.002):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(dropout),
            nn.Linear(2 * channels * 4 * 4, 10),
        )

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        scores = self.net(images)
        self.log("val_loss", nn.functional.cross_entropy(scores, labels), prog_bar=True)
        self.log("val_acc", accuracy(scores, labels, task="multiclass", num_classes=10), prog_bar=True)

    def test_step(self, batch, batch_idx):
        images, labels = batch
        self.log("test_acc", accuracy(self.net(images), labels, task="multiclass", num_classes=10))

    def predict_step(self, batch, batch_idx):
        return self.net(batch[0]).argmax(1)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, max_lr=self.hparams.lr, total_steps=self.trainer.estimated_stepping_batches
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class DigitsData(L.LightningDataModule):
    def __init__(self, path: str, batch_size: int = 32):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage):
        rows = torch.tensor(np.loadtxt(self.hparams.path, delimiter=",", skiprows=1), dtype=torch.float)
        images = rows[:, :-1].reshape(-1, 1, 8, 8) / 16
        data = TensorDataset(images, rows[:, -1].long())
        generator = torch.Generator().manual_seed(42)
        self.train, self.val, self.test = random_split(data, [0.7, 0.15, 0.15], generator)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=self.hparams.batch_size)

    def test_dataloader(self):
        return DataLoader(self.test, batch_size=self.hparams.batch_size)

    predict_dataloader = test_dataloader


L.seed_everything(42)
model = Digits()
data = DigitsData("examples/digits/data/digits.csv")
trainer = L.Trainer(
    max_epochs=8,
    logger=CSVLogger("logs"),
    log_every_n_steps=10,
    callbacks=[
        EarlyStopping("val_loss", patience=5),
        ModelCheckpoint(monitor="val_loss", save_last=True),
        LearningRateMonitor(),
    ],
)
trainer.fit(model, datamodule=data)
results = trainer.test(model, datamodule=data, ckpt_path="best")
digits = torch.cat(trainer.predict(model, datamodule=data))
print(f"test_acc {results[0]['test_acc']:.4f} of {len(digits)}")
