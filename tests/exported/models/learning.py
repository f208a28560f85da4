"""Models by how they learn: from views without labels, from pairs, from what they generate, from rewards."""

import copy

import torch
import torch.nn.functional as F

from cases import Training, case
from vision import classified, views


def encoder(width=16):
    return torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, width))


def of_views(head, loss, **parts):
    network = torch.nn.ModuleDict({"body": encoder(), "head": head, **parts})
    return Training(network, lambda network, batch: loss(network, *(network["head"](network["body"](view)) for view in batch)))


@case("lightly", views())
def vicreg():
    from lightly.loss import VICRegLoss
    from lightly.models.modules import BarlowTwinsProjectionHead

    loss = VICRegLoss()
    return of_views(BarlowTwinsProjectionHead(16, 32, 32), lambda network, one, other: loss(one, other))


@case("lightly", views())
def barlow_twins():
    from lightly.loss import BarlowTwinsLoss
    from lightly.models.modules import BarlowTwinsProjectionHead

    loss = BarlowTwinsLoss()
    return of_views(BarlowTwinsProjectionHead(16, 32, 32), lambda network, one, other: loss(one, other))


@case("lightly", views())
def simsiam():
    from lightly.loss import NegativeCosineSimilarity
    from lightly.models.modules import SimSiamPredictionHead, SimSiamProjectionHead

    negative = NegativeCosineSimilarity()

    def loss(network, one, other):
        return 0.5 * (negative(network["predict"](one), other.detach()) + negative(network["predict"](other), one.detach()))

    return of_views(SimSiamProjectionHead(16, 32, 16), loss, predict=SimSiamPredictionHead(16, 8, 16))


def dino_step(module, batch, batch_idx):
    """As lightly's example has it."""
    from lightly.models.utils import update_momentum
    from lightly.utils.scheduler import cosine_schedule

    momentum = cosine_schedule(module.current_epoch, 10, 0.996, 1)
    update_momentum(module.student, module.teacher, momentum)
    teacher = [module.teacher(view) for view in batch]
    student = [module.student(view) for view in batch]
    loss = module.criterion(teacher, student, epoch=module.current_epoch)
    module.log("train_loss", loss)
    return loss


@case("lightly", views(), without=["validation_step"])
def dino():
    from lightly.loss import DINOLoss
    from lightly.models.modules import DINOProjectionHead
    from lightly.models.utils import deactivate_requires_grad

    module = type("Dino", (Training,), {"training_step": dino_step, "validation_step": Training.validation_step})(None, None)
    module.student = torch.nn.Sequential(encoder(), DINOProjectionHead(16, 32, 16, 64, freeze_last_layer=1))
    module.teacher = torch.nn.Sequential(encoder(), DINOProjectionHead(16, 32, 16, 64))
    deactivate_requires_grad(module.teacher)
    module.criterion = DINOLoss(output_dim=64, warmup_teacher_temp_epochs=5)
    return module


@case("lightly", lambda _: torch.randn(4, 3, 32, 32))
def masked_autoencoder():
    from transformers import ViTMAEConfig, ViTMAEForPreTraining

    config = ViTMAEConfig(image_size=32, patch_size=8, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48,
                          decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32)
    return Training(ViTMAEForPreTraining(config), lambda network, batch: network(batch).loss)


@case("pytorch-metric-learning", classified(classes=3, rows=8))
def triplets():
    from pytorch_metric_learning.losses import TripletMarginLoss
    from pytorch_metric_learning.miners import MultiSimilarityMiner

    loss, miner = TripletMarginLoss(), MultiSimilarityMiner()

    def mined(network, batch):
        found = network(batch[0])
        return loss(found, batch[1], miner(found, batch[1]))

    return Training(encoder(), mined)


@case("pytorch-metric-learning", classified(classes=3, rows=8))
def supervised_contrast():
    from pytorch_metric_learning.losses import SupConLoss

    loss = SupConLoss()
    return Training(encoder(), lambda network, batch: loss(network(batch[0]), batch[1]))


class Autoencoder(torch.nn.Module):
    """A variational one, whose weight of the divergence grows with the epochs."""

    def __init__(self):
        super().__init__()
        self.down, self.up = torch.nn.Linear(64, 8), torch.nn.Linear(4, 64)

    def forward(self, values):
        mean, spread = self.down(values).chunk(2, dim=1)
        posterior = torch.distributions.Normal(mean, F.softplus(spread) + 1e-3)
        return self.up(posterior.rsample()), torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0, 1)).sum(1).mean()


def annealed_step(module, batch, batch_idx):
    restored, divergence = module.network(batch)
    weight = 0.0 if module.current_epoch < 3 else min(1.0, (module.current_epoch - 3) / 10)
    loss = F.mse_loss(restored, batch) + weight * divergence
    module.log_dict({"train_loss": loss, "weight": weight})
    return loss


@case("pl_bolts", lambda _: torch.rand(16, 64))
def annealed_autoencoder():
    return type("Annealed", (Training,), {"training_step": annealed_step})(Autoencoder(), lambda network, batch: F.mse_loss(network(batch)[0], batch))


@case("torch", lambda _: (torch.randn(16, 4), torch.randint(0, 2, (16,)), torch.randn(16), torch.randn(16, 4), torch.randint(0, 2, (16,)).float()))
def deep_q_learning():
    network = torch.nn.ModuleDict({"online": torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))})
    network["target"] = copy.deepcopy(network["online"]).requires_grad_(False)

    def loss(network, batch):
        states, actions, rewards, following, done = batch
        values = network["online"](states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            best = network["target"](following).max(1).values
            best[done > 0.5] = 0.0
        return F.smooth_l1_loss(values, rewards + 0.99 * best)

    return Training(network, loss)


@case("torch", lambda _: (torch.randn(16, 4), torch.randint(0, 3, (16,)), torch.randn(16), torch.randn(16), torch.randn(16)))
def proximal_policy():
    network = torch.nn.ModuleDict({"policy": torch.nn.Linear(4, 3), "value": torch.nn.Linear(4, 1)})

    def loss(network, batch):
        states, actions, before, advantages, returns = batch
        policy = torch.distributions.Categorical(logits=network["policy"](states))
        ratio = (policy.log_prob(actions) - before).exp()
        normal = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = torch.min(ratio * normal, ratio.clamp(0.8, 1.2) * normal).mean()
        return -clipped + 0.5 * F.mse_loss(network["value"](states).squeeze(1), returns) - 0.01 * policy.entropy().mean()

    return Training(network, loss)


@case("torchmetrics", lambda _: (torch.rand(2, 1, 32, 32), torch.rand(2, 1, 32, 32)))
def metric_as_a_loss():
    from torchmetrics.functional.image import structural_similarity_index_measure

    network = torch.nn.Conv2d(1, 1, 3, padding=1)
    return Training(network, lambda network, batch: 1 - structural_similarity_index_measure(network(batch[0]), batch[1], data_range=1.0))
