import glob
import sys

import lightning as L
import torch
import webdataset as wds
from torch import nn
from torch.utils.data import DataLoader
from torchvision.transforms import v2


class Scans(L.LightningModule):
    def __init__(self, train: str, test: str, hidden: int = 64, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, hidden), nn.ReLU(), nn.Linear(hidden, 3))

    def training_step(self, batch, batch_idx):
        image, label = batch
        loss = nn.functional.cross_entropy(self.net(image), label)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def test_step(self, batch, batch_idx):
        image, label = batch
        self.log("test_acc", (self.net(image).argmax(1) == label).float().mean(), batch_size=len(label))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    def train_dataloader(self):
        shards = sorted(glob.glob(self.hparams.train))
        samples = wds.WebDataset(shards, shardshuffle=len(shards), nodesplitter=wds.split_by_node).shuffle(60)
        return DataLoader(decoded(samples).batched(12), None, num_workers=2)

    def test_dataloader(self):
        samples = wds.WebDataset(sorted(glob.glob(self.hparams.test)), shardshuffle=False)
        return DataLoader(decoded(samples).batched(12), None)


def decoded(samples):
    transform = v2.Compose([v2.ToImage(), v2.Resize((32, 32)), v2.ToDtype(torch.float32, scale=True)])
    return samples.decode("pil").to_tuple("png", "cls").map_tuple(transform, lambda label: label)


if __name__ == "__main__":
    L.seed_everything(1)
    model = Scans(sys.argv[1], sys.argv[2])
    trainer = L.Trainer(
        max_epochs=40, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    trainer.fit(model)
    print(f"test_acc {trainer.test(model, verbose=False)[0]['test_acc']:.4f}")
