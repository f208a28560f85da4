import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


class Strength(L.LightningModule):
    def __init__(self, hidden: int = 32, lr: float = 0.01):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def error(self, batch):
        features, strength = batch
        return nn.functional.mse_loss(self.net(features).squeeze(1), strength)

    def training_step(self, batch, batch_idx):
        loss = self.error(batch)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.error(batch))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


rows = torch.tensor(np.loadtxt("examples/table/data/train.csv", delimiter=",", skiprows=1)).float()
features = (rows[:, :-1] - rows[:, :-1].mean(0)) / rows[:, :-1].std(0)
data = TensorDataset(features, rows[:, -1] / 10)
order = torch.randperm(len(data), generator=torch.Generator().manual_seed(1))
losses = []
for fold in range(5):
    L.seed_everything(fold)
    held_out = torch.arange(len(data)) % 5 == fold
    trainer = L.Trainer(
        max_epochs=15, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False
    )
    model = Strength()
    trainer.fit(
        model,
        DataLoader(Subset(data, order[~held_out].tolist()), batch_size=32, shuffle=True),
        DataLoader(Subset(data, order[held_out].tolist()), batch_size=256),
    )
    losses.append(trainer.callback_metrics["val_loss"].item())
print(f"val_loss {np.mean(losses):.3f} ± {np.std(losses):.3f}")
