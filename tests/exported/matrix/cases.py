"""What a module of the matrix is: its class, its batches, and how it is exported and trained."""

import dataclasses
from collections.abc import Callable
from typing import Any

import lightning
import torch


@dataclasses.dataclass
class Case:
    """One line of the matrix."""

    name: str
    module: type
    batch: Callable[[int], Any]  # of a number of rows, with torch's random numbers
    ranks: tuple[int, ...]  # with how many ranks it is compared with one process
    rows: int
    unused: bool  # some parameters take no part in the loss
    export: dict[str, Any]  # options of levin_train.export()
    trainer: dict[str, Any]  # options of both trainers


CASES: dict[str, Case] = {}


def case(batch, ranks=(2,), rows=16, unused=False, trainer=None, **export):
    """Enters a module in the matrix. `ranks` is () where the loss depends on the batch as a whole, as with BatchNorm."""

    def enter(module):
        name = "".join("_" + letter.lower() if letter.isupper() else letter for letter in module.__name__).lstrip("_")
        CASES[name] = Case(name, module, batch, ranks, rows, unused, export, trainer or {})
        return module

    return enter


class Module(lightning.LightningModule):
    """Logs what loss() gives, and is trained by SGD."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss, sync_dist=True)
        return loss

    def configure_optimizers(self):
        # Those that are trained, as levin's optimizer has them: only so can Lightning take the optimizer's state from levin.
        return torch.optim.SGD([each for each in self.parameters() if each.requires_grad], lr=0.02, momentum=0.9)
