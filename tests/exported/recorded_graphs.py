"""What tests of levin_train.export() share: a module, its batch, and what is recorded of a step without compiling it."""

import pathlib
import random
import sys
import types
import unittest
import unittest.mock
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import lightning  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import levin_train  # noqa: E402
from levin_train import exporting, verification  # noqa: E402
from python_operators import levins_operators  # noqa: E402

_GENERATOR = torch.Generator().manual_seed(0)
BATCH = (torch.randn(8, 6, generator=_GENERATOR), torch.randint(0, 3, (8,), generator=_GENERATOR))


class Recorded(Exception):
    """A step's graph, instead of what would be compiled."""

    def __init__(self, graph):
        super().__init__()
        self.graph = graph


def recorded(module, batch=BATCH, **options):
    """The graph of the first step of a module. Raises ExportError where it cannot be exported."""
    def stop(graph, *_):
        raise Recorded(graph)

    with unittest.mock.patch("levin_train.exporting.compiled", stop), unittest.mock.patch("levin_train.parallel._processors", lambda: 1), \
            warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            levin_train.export(module, batch, "unwritten.pt2", **options)
        except Recorded as found:
            return found.graph
    raise AssertionError("nothing was recorded")


class Base(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 3)
        self.count, self.kept, self.rng = 0, [], random.Random(0)
        self.alpha = torch.ones(3)
        self.register_buffer("rate", torch.ones(()))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Verified(Exception):
    """The graphs of a module's steps, which give what the module gives."""

    def __init__(self, graphs, notes):
        super().__init__()
        self.graphs = graphs
        self.notes = notes


def verified(module, batch=BATCH, batches=(), sizes=(2, 7, 33), **options):
    """Records all steps of a module, and compares their graphs with the module as an export does with the package. Gives the graphs by
    name, and what export() notes. Raises ExportError where it would."""
    graphs, notes = {}, []

    def keep(graph, *_):
        graphs[graph.step.name] = graph
        return []

    def compare(*_):
        with levins_operators(), unittest.mock.patch("levin_train.torch_patches.loaded", lambda _, name: _interpreted(graphs[name])):
            verification.verify("", graphs, sizes)
        raise Verified(graphs, notes)

    real = exporting._write_verified

    def noting(module, steps, optional, path, target, sizes, found, *rest):
        notes.append(found)
        return real(module, steps, optional, path, target, sizes, found, *rest)

    with unittest.mock.patch.multiple("levin_train.exporting", compiled=keep, _write_archive=compare, _write_verified=noting), \
            unittest.mock.patch("levin_train.parallel._processors", lambda: 1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            levin_train.export(module, batch, "unwritten.pt2", batches=batches, **options)
        except Verified as done:
            return done.graphs, [note for found in notes for note in found]
    raise AssertionError("nothing was compared")


def _interpreted(graph):
    """In place of a loaded package: the graph itself."""
    return types.SimpleNamespace(loader=types.SimpleNamespace(boxed_run=lambda inputs: list(graph.module(*inputs))))


def with_step(step, base=Base, **members):
    """A module with this training step."""
    return type("Model", (base,), {"training_step": step, "__module__": step.__module__, **members})()


def line_with(file, text):
    """The line of a file that has this comment, as messages name it."""
    lines = pathlib.Path(file).read_text(encoding="utf-8").splitlines()
    return f"{pathlib.Path(file).name}:{next(number for number, line in enumerate(lines, 1) if line.endswith(f'# {text}'))}"


class Refused(unittest.TestCase):
    def refused(self, module, wanted, batch=BATCH, line=None, **options):
        """The message of an export that is refused, at this line if it is given."""
        with self.assertRaises(levin_train.ExportError) as raised:
            verified(module, batch, **options)
        self.assertIn(wanted, str(raised.exception))
        if line is not None:
            self.assertTrue(str(raised.exception).startswith(f"{line}:"), f"{raised.exception} (wanted line {line})")
        return str(raised.exception)
