import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Sine(L.LightningModule):
    def __init__(self, hidden: int = 64, lr: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(1, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


def points(count):
    x = torch.linspace(-3, 3, count).unsqueeze(1)
    return TensorDataset(x, x.sin())


L.seed_everything(1)
model = Sine()
trainer = L.Trainer(
    max_epochs=10, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
)
trainer.fit(model, DataLoader(points(1024), batch_size=64, shuffle=True), DataLoader(points(100), batch_size=100))
print(f"val_loss {trainer.callback_metrics['val_loss']:.4f}")
