"""Modules of the matrix on vectors, tables and sets."""

import math

import torch
import torch.nn.functional as F
import torchmetrics
from torch import nn
from torch.utils.checkpoint import checkpoint

from cases import Module, case


def classes(features, count):
    return lambda rows: (torch.randn(rows, features), torch.randint(0, count, (rows,)))


def regression(features, targets=1):
    return lambda rows: (torch.randn(rows, features), torch.randn(rows, targets))


@case(classes(20, 5), ranks=(2, 4))
class Mlp(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5))

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y)
        self.log("train_loss", loss, sync_dist=True, prog_bar=True)
        self.log("train_accuracy", (logits.argmax(1) == y).float().mean(), sync_dist=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", F.cross_entropy(self.net(x), y))

    def predict_step(self, batch, batch_idx):
        return self.net(batch[0]).softmax(1)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


@case(classes(20, 5), ranks=())
class DropoutMlp(Module):
    """Draws the same random numbers in both."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.Dropout(0.3), nn.Linear(32, 5))

    def loss(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1])


@case(lambda rows: {"user": torch.randint(0, 50, (rows,)), "item": torch.randint(0, 80, (rows,)), "rating": torch.rand(rows) * 5})
class Recommender(Module):
    """Matrix factorisation: embeddings and biases, batches with names."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(50, 8), nn.Embedding(80, 8)
        self.user_bias, self.item_bias = nn.Embedding(50, 1), nn.Embedding(80, 1)

    def loss(self, batch):
        user, item = batch["user"], batch["item"]
        score = (self.users(user) * self.items(item)).sum(1) + self.user_bias(user).squeeze(1) + self.item_bias(item).squeeze(1)
        return F.mse_loss(score, batch["rating"])

    def configure_optimizers(self):
        return torch.optim.Adagrad(self.parameters(), lr=0.05)


@case(lambda rows: (torch.randint(0, 100, (rows, 6)), torch.randint(0, 4, (rows,))))
class EmbeddingBags(Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(100, 16, mode="mean")
        self.head = nn.Linear(16, 4)

    def loss(self, batch):
        return F.cross_entropy(self.head(self.words(batch[0])), batch[1])


@case(lambda rows: {"image": torch.randn(rows, 12), "targets": {"kind": torch.randint(0, 3, (rows,)), "size": torch.randn(rows, 2),
                                                                "flags": torch.randint(0, 2, (rows, 4)).float()}})
class MultiTask(Module):
    """Three losses with learnt weights, a nested batch, a dictionary as the result."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.Tanh())
        self.heads = nn.ModuleDict({"kind": nn.Linear(24, 3), "size": nn.Linear(24, 2), "flags": nn.Linear(24, 4)})
        self.log_variance = nn.Parameter(torch.zeros(3))

    def training_step(self, batch, batch_idx):
        hidden, targets = self.body(batch["image"]), batch["targets"]
        losses = {
            "kind": F.cross_entropy(self.heads["kind"](hidden), targets["kind"]),
            "size": F.smooth_l1_loss(self.heads["size"](hidden), targets["size"]),
            "flags": F.binary_cross_entropy_with_logits(self.heads["flags"](hidden), targets["flags"]),
        }
        total = sum((-s).exp() * loss + s for s, loss in zip(self.log_variance, losses.values()))
        self.log_dict({f"train_{name}": loss for name, loss in losses.items()}, sync_dist=True)
        self.log("train_loss", total, sync_dist=True)
        return {"loss": total, "hidden": hidden.detach()}


@case(lambda rows: (torch.randn(rows, 10, 6), torch.rand(rows, 10) > 0.3, torch.randn(rows)))
class DeepSets(Module):
    """Pools a set under a mask, with attention."""

    def __init__(self):
        super().__init__()
        self.encode, self.score, self.head = nn.Linear(6, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def loss(self, batch):
        x, mask, target = batch
        hidden = self.encode(x).relu()
        weights = self.score(hidden).squeeze(-1).masked_fill(~mask, -1e4).softmax(1)
        pooled = torch.einsum("bn,bnd->bd", weights, hidden)
        return F.mse_loss(self.head(pooled).squeeze(-1), target)


@case(classes(16, 4))
class MixtureOfExperts(Module):
    """Routes each row to two of four experts, densely."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)) for _ in range(4))

    def loss(self, batch):
        x, y = batch
        values, chosen = self.gate(x).topk(2, dim=1)
        weights = torch.zeros(len(x), 4).scatter(1, chosen, values.softmax(1))
        output = sum(weights[:, [index]] * expert(x) for index, expert in enumerate(self.experts))
        return F.cross_entropy(output, y)


@case(classes(16, 4))
class WeightNormed(Module):
    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.net = nn.Sequential(norm(nn.Linear(16, 24)), nn.ReLU(), nn.Sequential(norm(nn.Linear(24, 24)), nn.ReLU()), norm(nn.Linear(24, 4)))

    def loss(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1])


@case(classes(16, 4))
class SpectralNormed(Module):
    """Its power iteration changes buffers in each step."""

    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.net = nn.Sequential(norm(nn.Linear(16, 24)), nn.LeakyReLU(0.1), norm(nn.Linear(24, 4)))

    def loss(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1])


@case(classes(16, 4))
class OlderNorms(Module):
    """torch's deprecated weight_norm and spectral_norm, which compute an attribute in a hook."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.utils.weight_norm(nn.Linear(16, 24)), nn.ReLU(), nn.utils.spectral_norm(nn.Linear(24, 4)))

    def loss(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1])


@case(lambda rows: (torch.randn(rows, 12), torch.randn(rows, 12)))
class MomentumTeacher(Module):
    """A teacher that follows the student in the step; centres the batch in its own memory."""

    def __init__(self):
        super().__init__()
        self.student, self.teacher = nn.Linear(12, 6), nn.Linear(12, 6).requires_grad_(False)
        self.predictor = nn.Linear(6, 6)

    def loss(self, batch):
        with torch.no_grad():
            for theirs, ours in zip(self.teacher.parameters(), self.student.parameters()):
                theirs.mul_(0.9).add_(ours, alpha=0.1)
        first, second = batch[0].mul_(0.5), batch[1]
        return (2 - 2 * F.cosine_similarity(self.predictor(self.student(first)), self.teacher(second))).mean()


@case(regression(8))
class QuantileRegression(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 3))
        self.register_buffer("quantiles", torch.tensor([0.1, 0.5, 0.9]))

    def loss(self, batch):
        error = batch[1] - self.net(batch[0])
        return torch.maximum(self.quantiles * error, (self.quantiles - 1) * error).mean()

    def configure_optimizers(self):
        optimizer = torch.optim.RMSprop(self.parameters(), lr=1e-3)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.5), "interval": "step"}}


@case(lambda rows: (torch.randn(rows, 12), torch.randn(rows, 12)), ranks=())
class Contrastive(Module):
    """Each row against all others: normalised, with a learnt temperature."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def loss(self, batch):
        first, second = (F.normalize(self.encoder(view), dim=1) for view in batch)
        similarity = first @ second.T * self.temperature.exp()
        labels = torch.arange(len(first))
        return (F.cross_entropy(similarity, labels) + F.cross_entropy(similarity.T, labels)) / 2


@case(lambda rows: tuple(torch.randn(rows, 10) for _ in range(3)))
class Triplet(Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 6))

    def loss(self, batch):
        return F.triplet_margin_loss(*(self.encoder(part) for part in batch), margin=1.0)


@case(regression(2))
class Physics(Module):
    """Its loss has the derivative of the network by its input: a backward pass of a backward pass."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 1))

    def loss(self, batch):
        x, target = batch
        x = x.detach().requires_grad_(True)
        u = self.net(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        return F.mse_loss(u, target) + 0.1 * slope.pow(2).mean()


@case(classes(16, 4), unused=True)
class Distillation(Module):
    """A frozen teacher without gradients, and a parameter that nothing uses."""

    def __init__(self):
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).requires_grad_(False)
        self.student = nn.Linear(16, 4)
        self.unused = nn.Parameter(torch.ones(3))

    def loss(self, batch):
        x, y = batch
        with torch.no_grad():
            soft = self.teacher(x).softmax(1)
        logits = self.student(x)
        return F.cross_entropy(logits, y) + F.kl_div(logits.log_softmax(1), soft, reduction="batchmean")


@case(regression(6, 2))
class MixtureDensity(Module):
    """torch.distributions with its validation of arguments on."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 15)

    def loss(self, batch):
        x, y = batch
        logits, means, scales = self.net(x).split([3, 6, 6], dim=1)
        components = torch.distributions.Normal(means.view(-1, 3, 2), F.softplus(scales).view(-1, 3, 2) + 1e-3)
        mixture = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=logits), torch.distributions.Independent(components, 1))
        return -mixture.log_prob(y).mean()


@case(lambda rows: torch.randn(rows, 6))
class Flow(Module):
    """Coupling layers; the batch is one tensor."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 6)) for _ in range(4))

    def loss(self, x):
        total = torch.zeros(x.shape[0])
        a, b = x.chunk(2, dim=1)
        for layer in self.layers:
            scale, shift = layer(a).chunk(2, dim=1)
            b = b * torch.tanh(scale).exp() + shift
            total = total + torch.tanh(scale).sum(1)
            a, b = b, a
        return (0.5 * torch.cat([a, b], 1).pow(2).sum(1) - total).mean()


@case(lambda rows: (torch.randn(rows, 5, 8), torch.randint(0, 5, (rows, 2, 9)), torch.randn(rows)))
class GraphNetwork(Module):
    """Messages along edges by index_add, each row a graph of five nodes."""

    def __init__(self):
        super().__init__()
        self.message, self.update, self.head = nn.Linear(16, 8), nn.GRUCell(8, 8), nn.Linear(8, 1)

    def loss(self, batch):
        nodes, edges, target = batch
        count, size = nodes.shape[0], nodes.shape[1]
        offset = torch.arange(count).unsqueeze(1) * size
        source, destination = (edges[:, 0] + offset).flatten(), (edges[:, 1] + offset).flatten()
        h = nodes.reshape(-1, 8)
        for _ in range(2):
            messages = self.message(torch.cat([h[source], h[destination]], 1)).relu()
            h = self.update(torch.zeros_like(h).index_add(0, destination, messages), h)
        return F.mse_loss(self.head(h).view(count, size).sum(1), target)


@case(classes(16, 4), precision="bf16-mixed", trainer={"precision": "bf16-mixed"})
class Bf16Mlp(Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 4))

    def loss(self, batch):
        return F.cross_entropy(self.net(batch[0]), batch[1])


@case(classes(16, 4), ranks=())
class Checkpointed(Module):
    """Layers that run again in the backward pass, of both kinds: their running means are updated twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU())
        self.second, self.last = nn.Sequential(nn.Linear(32, 32), nn.BatchNorm1d(32), nn.Tanh()), nn.Linear(32, 4)

    def loss(self, batch):
        hidden = checkpoint(self.first, batch[0].requires_grad_(self.training), use_reentrant=True)
        return F.cross_entropy(self.last(checkpoint(self.second, hidden, use_reentrant=False)), batch[1])

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))


@case(regression(8), ranks=())
class Scheduled(Module):
    """Numbers of the run in Python's arithmetic, an attribute that the first step sets, and a metric object as the loss."""

    def __init__(self):
        super().__init__()
        self.net, self.mask, self.error = nn.Linear(8, 1), None, torchmetrics.MeanSquaredError()

    def setup(self, stage):
        self.period = 10.0

    def loss(self, batch):
        if self.mask is None:
            self.mask = torch.arange(8) < 6
        factor = 0.5 * (1 + math.cos(math.pi * self.global_step / self.period)) + min(1.0, self.global_step / 20) + 0.99 ** self.global_step
        return self.error(self.net(batch[0] * self.mask).squeeze(1), batch[1].reshape(-1)) * factor + (self.global_step > 50) * self.net.weight.pow(2).sum()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("item", math.exp(loss.item() / 10))
        return loss


@case(classes(16, 4), ranks=())
class Gan(Module):
    """Two optimizers by hand."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.net = nn.Linear(16, 4)

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(F.cross_entropy(self.net(batch[0]), batch[1]))
        optimizer.step()


@case(classes(16, 4), ranks=())
class SparseRouting(Module):
    """Experts run on the rows that chose them, whose number comes from data."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 2)
        self.experts = nn.ModuleList(nn.Linear(16, 4) for _ in range(2))

    def loss(self, batch):
        x, y = batch
        chosen = self.gate(x).argmax(1)
        output = torch.zeros(x.shape[0], 4)
        for index, expert in enumerate(self.experts):
            rows = torch.where(chosen == index)[0]
            if rows.numel() == 0:
                continue
            output[rows] = expert(x[rows])
        return F.cross_entropy(output, y)
