"""The network that closes the solver's equation, as a LightningModule, and the line that brings it to levin."""

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn


class Closure(L.LightningModule):
    """What the flux of heat at a face lacks, from the temperatures on its two sides."""

    def __init__(self, width=32, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, sides):
        return self.net(sides)

    def training_step(self, batch, batch_idx):
        loss = F.mse_loss(self(batch["sides"]), batch["flux"])
        self.log("train_loss", loss)
        return loss

    def predict_step(self, batch, batch_idx):
        return {"flux": self(batch["sides"])}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    import levin_train

    torch.manual_seed(42)
    # For every processor with AVX2, not this machine's alone.
    levin_train.export(Closure(), {"sides": torch.randn(32, 2), "flux": torch.randn(32, 1)}, "closure.pt2", processor="x86-64-v3")
