import sys

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, default_collate, random_split
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2


class Photos(L.LightningModule):
    def __init__(self, channels: int = 16, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()

        def block(start, end):
            return nn.Sequential(nn.Conv2d(start, end, 3, padding=1), nn.BatchNorm2d(end), nn.ReLU(), nn.MaxPool2d(2))

        self.net = nn.Sequential(
            block(3, channels), block(channels, 2 * channels), nn.Flatten(), nn.Linear(2 * channels * 64, 3)
        )

    def training_step(self, batch, batch_idx):
        image, label = batch
        loss = nn.functional.cross_entropy(self.net(image), label)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def test_step(self, batch, batch_idx):
        image, label = batch
        self.log("test_acc", (self.net(image).argmax(1) == label).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


to_float = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
augment = v2.Compose(
    [v2.RandomResizedCrop(32, scale=(0.7, 1.0)), v2.RandomHorizontalFlip(), v2.ColorJitter(brightness=0.2), *to_float]
)
plain = v2.Compose([v2.Resize((32, 32)), *to_float])
mixup = v2.MixUp(alpha=0.2, num_classes=3)


def collate(samples):
    return mixup(*default_collate(samples))


if __name__ == "__main__":
    L.seed_everything(1)
    count = len(ImageFolder(sys.argv[1]))
    test_count = count // 5
    train, test = random_split(range(count), [count - test_count, test_count], torch.Generator().manual_seed(42))
    train_data = Subset(ImageFolder(sys.argv[1], augment), train.indices)
    test_data = Subset(ImageFolder(sys.argv[1], plain), test.indices)
    model = Photos()
    trainer = L.Trainer(
        max_epochs=60, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    trainer.fit(model, DataLoader(train_data, 18, shuffle=True, num_workers=2, collate_fn=collate))
    result = trainer.test(model, DataLoader(test_data, 18, num_workers=2), verbose=False)
    print(f"test_acc {result[0]['test_acc']:.4f}")
