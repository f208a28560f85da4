"""A LightningModule as it stands in a Python project, and the line that brings it to levin."""

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torchmetrics.classification import MulticlassAccuracy


class Digits(L.LightningModule):
    def __init__(self, width=64, lr=3e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv2d(1, width // 4, 3, padding=1, bias=False), nn.BatchNorm2d(width // 4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(width * 4, width), nn.ReLU(), nn.Linear(width, 10))
        self.accuracy = MulticlassAccuracy(num_classes=10, average="micro")

    def forward(self, images):
        return self.net(images)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = F.cross_entropy(self(images), labels)
        self.log("train_loss", loss, on_step=False, on_epoch=True, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        scores = self(images)
        self.accuracy(scores, labels)
        self.log("val_loss", F.cross_entropy(scores, labels), prog_bar=True)
        self.log("val_acc", self.accuracy, prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)]


if __name__ == "__main__":
    import levin_train

    torch.manual_seed(42)
    levin_train.export(Digits(), (torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,))), "digits.pt2")
