import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Vae(L.LightningModule):
    def __init__(self, hidden: int = 64, latent: int = 4, beta: float = 0.5, lr: float = 0.002):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, 64), nn.Sigmoid())

    def losses(self, batch):
        mean, log_variance = self.encoder(batch[0]).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        rebuilt = nn.functional.binary_cross_entropy(self.decoder(code), batch[0], reduction="sum")
        divergence = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum()
        return rebuilt / len(mean), divergence / len(mean)

    def training_step(self, batch, batch_idx):
        rebuilt, divergence = self.losses(batch)
        self.log_dict({"rebuilt": rebuilt, "divergence": divergence}, prog_bar=True)
        return rebuilt + self.hparams.beta * divergence

    def validation_step(self, batch, batch_idx):
        rebuilt, divergence = self.losses(batch)
        self.log("val_loss", rebuilt + self.hparams.beta * divergence, prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

    @torch.no_grad()
    def sample(self, count):
        return self.decoder(torch.randn(count, self.hparams.latent))


class SaveSamples(Callback):
    def __init__(self, every_n_epochs):
        self.every_n_epochs = every_n_epochs

    def on_train_epoch_end(self, trainer, module):
        if (trainer.current_epoch + 1) % self.every_n_epochs:
            return
        pixels = (module.sample(64).view(8, 8, 8, 8).transpose(1, 2) * 255).byte()
        with open(f"samples_{trainer.current_epoch}.pgm", "wb") as file:
            file.write(b"P5 64 64 255\n" + pixels.numpy().tobytes())


L.seed_everything(4)
rows = torch.tensor(np.loadtxt("examples/digits/data/digits.csv", delimiter=",", skiprows=1))
images = rows[:, :-1].float() / 16
train, val = random_split(TensorDataset(images), [0.9, 0.1], torch.Generator().manual_seed(42))
model = Vae()
trainer = L.Trainer(max_epochs=10, logger=False, enable_checkpointing=False, callbacks=[SaveSamples(5)])
trainer.fit(model, DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=180))
print(f"val_loss {trainer.callback_metrics['val_loss']:.2f}")
