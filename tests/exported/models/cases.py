"""What a model of the kit is: how it is made, its batches, and how it is exported."""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import lightning
import torch


@dataclasses.dataclass
class Variant:
    """A way to export a model: as it is, or after the one change that the message asks for."""

    make: Callable[[], torch.nn.Module]
    batch: Callable[[int], Any]  # of the batch's number, with torch's random numbers
    export: dict[str, Any]  # options of levin_train.export(); `batches` is a number of batches
    what: str = ""  # what was changed


@dataclasses.dataclass
class Case:
    """One line of the table."""

    name: str
    field: str
    package: str  # from which the model comes
    as_it_is: Variant
    changed: Variant | None = None


CASES: dict[str, Case] = {}


def case(package, batch, **export):
    """Enters a model in the kit, by the name of the function that makes it."""

    def enter(make):
        CASES[make.__name__] = Case(make.__name__, make.__module__, package, Variant(make, batch, export))
        return make

    return enter


def changed(of, what, make=None, batch=None, **export):
    """The second variant of a model: with another module, batch or options of export() than the first."""
    first = CASES[of.__name__]
    first.changed = Variant(make or first.as_it_is.make, batch or first.as_it_is.batch, {**first.as_it_is.export, **export}, what)


class Training(lightning.LightningModule):
    """A network of a package as most people train it: `loss` is a function of the network and a batch."""

    def __init__(self, network, loss, lr=1e-3):
        super().__init__()
        self.network, self._loss, self._lr = network, loss, lr

    def training_step(self, batch, batch_idx):
        loss = self._loss(self.network, batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self._loss(self.network, batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self._lr)


def load(field):
    """Fills CASES from a file of this folder."""
    importlib.import_module(field)
