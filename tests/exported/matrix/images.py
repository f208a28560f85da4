"""Modules of the matrix on images."""

import torch
import torch.nn.functional as F
from torch import nn

from cases import Module, case


def images(count, channels=1, size=8):
    return lambda rows: (torch.randn(rows, channels, size, size), torch.randint(0, count, (rows,)))


@case(images(10), ranks=())
class Cnn(Module):
    """Convolutions, BatchNorm and dropout; validated with the statistics of training."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Dropout2d(0.1), nn.Flatten(), nn.Linear(128, 10))

    def loss(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, batch_idx):
        logits = self.net(batch[0])
        self.log_dict({"val_loss": F.cross_entropy(logits, batch[1]), "val_accuracy": (logits.argmax(1) == batch[1]).float().mean()})

    def predict_step(self, batch, batch_idx):
        scores = self.net(batch[0]).softmax(1)
        return {"scores": scores, "best": scores.max(1).values}


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU(inplace=True),
                                  nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))
        self.skip = nn.Sequential() if stride == 1 and inside == outside else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


@case(images(10, 3), ranks=())
class Resnet(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), Block(8, 8, 1), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))

    def loss(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1], label_smoothing=0.1)


@case(lambda rows: torch.rand(rows, 1, 8, 8), ranks=())
class Vae(Module):
    """Draws noise, and weighs one of its losses by the step."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 64), nn.Sigmoid())

    def training_step(self, x, batch_idx):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        reconstruction = F.binary_cross_entropy(self.decoder(code), x.flatten(1), reduction="sum") / len(x)
        kl = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        beta = min(1.0, self.global_step / 50)
        loss = reconstruction + beta * kl
        self.log_dict({"train_loss": loss, "train_kl": kl, "beta": beta})
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


@case(lambda rows: (torch.randn(rows, 3, 16, 16), torch.randint(-1, 4, (rows, 16, 16)).where(torch.rand(rows, 16, 16) > 0.1, 255)), rows=4, ranks=())
class Unet(Module):
    """Segmentation with skips, transposed convolutions, and pixels that do not count."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, stride=2), nn.Conv2d(16, 4, 1)

    def loss(self, batch):
        image, target = batch
        first = self.down1(image).relu()
        second = self.down2(first).relu()
        logits = self.out(torch.cat([first, self.up(second).relu()], 1))
        return F.cross_entropy(logits, target.where(target >= 0, 255), ignore_index=255)


@case(lambda rows: torch.rand(rows, 1, 8, 8))
class Autoencoder(Module):
    """Interpolation up, GroupNorm, PReLU."""

    def __init__(self):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.PReLU())
        self.decode = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 1, 3, padding=1))

    def loss(self, x):
        return F.l1_loss(self.decode(self.encode(x)), x)


@case(images(10), ranks=(2, 4))
class VisionTransformer(Module):
    """Patches, a class token, and positions."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(1, 16, 2, 2)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16) * 0.02)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=True), 1, enable_nested_tensor=False)
        self.head = nn.Linear(16, 10)

    def loss(self, batch):
        x = self.patches(batch[0]).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return F.cross_entropy(self.head(self.encoder(x)[:, 0]), batch[1])


@case(lambda rows: torch.randn(rows, 1, 8, 8), ranks=())
class VectorQuantized(Module):
    """A codebook in buffers that move with the codes; gradients go straight through."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Conv2d(1, 4, 2, 2), nn.ConvTranspose2d(4, 1, 2, 2)
        self.register_buffer("codes", torch.randn(12, 4))
        self.register_buffer("counts", torch.ones(12))
        self.register_buffer("sums", self.codes.clone())

    def loss(self, x):
        z = self.encoder(x)
        flat = z.permute(0, 2, 3, 1).reshape(-1, 4)
        chosen = torch.cdist(flat, self.codes).argmin(1)
        quantized = self.codes[chosen].view(z.shape[0], 4, 4, 4).permute(0, 3, 1, 2)
        with torch.no_grad():
            one_hot = F.one_hot(chosen, 12).float()
            self.counts.mul_(0.9).add_(one_hot.sum(0), alpha=0.1)
            self.sums.mul_(0.9).add_(one_hot.T @ flat, alpha=0.1)
            self.codes.copy_(self.sums / (self.counts.unsqueeze(1) + 1e-3))
        return F.mse_loss(self.decoder(z + (quantized - z).detach()), x) + 0.25 * F.mse_loss(z, quantized.detach())


@case(images(10), ranks=())
class Mixup(Module):
    """Mixes rows with a random permutation, by a weight that it draws."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.SiLU(), nn.Linear(32, 10))

    def loss(self, batch):
        x, y = batch
        order, weight = torch.randperm(x.shape[0]), torch.rand(())
        logits = self.net(weight * x + (1 - weight) * x[order])
        return weight * F.cross_entropy(logits, y) + (1 - weight) * F.cross_entropy(logits, y[order])
