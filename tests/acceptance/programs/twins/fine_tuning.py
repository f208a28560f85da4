import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split
from torchmetrics.functional import accuracy


class Reader(L.LightningModule):
    def __init__(self, classes: int, weights: str | None = None, unfreeze_epoch: int = 2, lr: float = 0.005):
        super().__init__()
        self.save_hyperparameters()
        self.backbone = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(256, classes)
        if weights:
            state = torch.load(weights, weights_only=True)["state_dict"]
            prefix = "backbone."
            state = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
            self.backbone.load_state_dict(state)
            self.backbone.requires_grad_(False)

    def on_train_epoch_start(self):
        if self.current_epoch == self.hparams.unfreeze_epoch:
            self.backbone.requires_grad_(True)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        return nn.functional.cross_entropy(self.head(self.backbone(images)), labels)

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        scores = self.head(self.backbone(images))
        self.log("val_acc", accuracy(scores, labels, task="multiclass", num_classes=self.hparams.classes))

    def configure_optimizers(self):
        groups = [{"params": self.head.parameters()}, {"params": self.backbone.parameters(), "lr": self.hparams.lr / 5}]
        return torch.optim.AdamW(groups, lr=self.hparams.lr)


def loaders(images, labels):
    parts = random_split(TensorDataset(images, labels), [0.8, 0.2], torch.Generator().manual_seed(1))
    return DataLoader(parts[0], batch_size=32, shuffle=True), DataLoader(parts[1], batch_size=32)


L.seed_everything(5)
rows = torch.tensor(np.loadtxt("examples/digits/data/digits.csv", delimiter=",", skiprows=1)).float()
images, labels = rows[:, :-1].reshape(-1, 1, 8, 8) / 16, rows[:, -1].long()
low = labels < 5
trainer = L.Trainer(max_epochs=4, logger=False)
trainer.fit(Reader(5), *loaders(images[low], labels[low]))
trainer.save_checkpoint("low.ckpt")
model = Reader(5, weights="low.ckpt")
trainer = L.Trainer(max_epochs=4, logger=False)
trainer.fit(model, *loaders(images[~low], labels[~low] - 5))
print(f"val_acc {trainer.callback_metrics['val_acc']:.4f}")
