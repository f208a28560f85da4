# Both programs in Lightning: python -P examples/own_loop/lightning.py trainer|loop [DIGITS.CSV [DEVICES]]
# -P: otherwise `import lightning` finds this file.
import sys

import lightning as L
import numpy as np
import torch
from lightning.fabric.loggers import CSVLogger as FabricLogger
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, random_split


def network():
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10))


def digits(path, batch_size):
    table = torch.from_numpy(np.loadtxt(path, delimiter=",", dtype=np.float32))
    data = TensorDataset(table[:, :64].view(-1, 1, 8, 8) / 16, table[:, 64].long())
    train, val, _ = random_split(data, [0.8, 0.1, 0.1], torch.Generator().manual_seed(42))
    return DataLoader(train, batch_size, shuffle=True), DataLoader(val, batch_size)


def accuracy(scores, labels):
    return (scores.argmax(1) == labels).float().mean()


class Digits(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = network()

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = cross_entropy(self.net(images), labels)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        self.log("val_acc", accuracy(self.net(images), labels))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.002)


def own_trainer(path="examples/digits/data/digits.csv", devices=1):
    L.seed_everything(42)
    trainer = L.Trainer(
        max_epochs=5, accelerator="cpu", devices=int(devices), log_every_n_steps=10, logger=CSVLogger("logs")
    )
    trainer.fit(Digits(), *digits(path, 32 // int(devices)))


def own_loop(path="examples/digits/data/digits.csv"):
    L.seed_everything(42)
    fabric = L.Fabric(accelerator="cpu", devices=1, loggers=FabricLogger("logs", name="own_loop"))
    net = network()
    net, optimizer = fabric.setup(net, torch.optim.Adam(net.parameters(), 0.002))
    training, validation = fabric.setup_dataloaders(*digits(path, 32))

    step = 0
    for epoch in range(5):
        for images, labels in training:
            loss = cross_entropy(net(images), labels)
            optimizer.zero_grad()
            fabric.backward(loss)
            optimizer.step()
            step += 1
            if step % 10 == 0:
                fabric.log_dict({"epoch": epoch, "train_loss": loss}, step - 1)

        hits = samples = 0
        with torch.no_grad():
            for images, labels in validation:
                hits += len(labels) * accuracy(net(images), labels)
                samples += len(labels)
        fabric.log_dict({"epoch": epoch, "val_acc": hits / samples}, step - 1)
    fabric.logger.finalize("success")

    fabric.save(f"{fabric.logger.log_dir}/checkpoints/last.ckpt", {"net": net})


if __name__ == "__main__":
    {"trainer": own_trainer, "loop": own_loop}[sys.argv[1]](*sys.argv[2:])
