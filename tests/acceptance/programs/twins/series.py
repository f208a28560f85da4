import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, series, length):
        self.series, self.length = series, length

    def __len__(self):
        return len(self.series) - self.length

    def __getitem__(self, index):
        return self.series[index : index + self.length].unsqueeze(1), self.series[index + self.length]


class Forecaster(L.LightningModule):
    def __init__(self, width: int = 32, lr: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.rnn = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, window):
        return self.head(self.rnn(window)[0][:, -1]).squeeze(1)

    def training_step(self, batch, batch_idx):
        window, following = batch
        loss = nn.functional.mse_loss(self(window), following)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        window, following = batch
        self.log("val_loss", nn.functional.l1_loss(self(window), following), prog_bar=True)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}


L.seed_everything(3)
time = torch.arange(2000) / 10
series = time.sin() + 0.5 * (3 * time).cos() + 0.05 * torch.randn(2000)
train = DataLoader(Windows(series[:1600], 24), batch_size=64, shuffle=True, num_workers=2, persistent_workers=True)
val = DataLoader(Windows(series[1600:], 24), batch_size=64)
model = Forecaster()
trainer = L.Trainer(max_epochs=5, gradient_clip_val=1.0)
trainer.fit(model, train, val)
print(f"val_loss {trainer.callback_metrics['val_loss']:.4f}")
