"""Tests of what networks of libraries do: operators of their own, questions whether they are compiled, sums of Einstein.

    python tests/exported/export_networks_test.py

Nothing is compiled here: what is recorded is compared with the module.
"""

import copy
import io
import os
import pathlib
import sys
import tempfile
import types
import unittest
import unittest.mock

from recorded_graphs import BATCH, Base, recorded, verified, with_step

import torch
import torch.backends.opt_einsum
import torch.nn.functional as F
import torchmetrics

import levin_train
from levin_train import parallel


@torch.library.custom_op("levin_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


@doubled.register_autograd
def _(ctx, outer):
    return outer * 2


class Parallel(unittest.TestCase):
    """Entries that are compiled in copies of the process."""

    def compiled(self, work, count=3):
        graphs = {name: types.SimpleNamespace(name=name, special_sizes=set()) for name in ("training_step", "validation_step", "predict_step")}
        lines = io.StringIO()
        lines.isatty = lambda: True
        with unittest.mock.patch("levin_train.parallel._processors", lambda: count):
            files = parallel.compiled_entries(graphs, work, parallel.Progress(lines))
        return graphs, files, lines.getvalue()

    def test_entries_are_compiled_in_other_processes(self):
        def work(graph):
            graph.special_sizes.add((graph.name, 7))
            return [graph.name, os.getpid()]

        for count in (1, 2, 3):
            graphs, files, lines = self.compiled(work, count)
            self.assertEqual([name for name, _ in files.values()], list(graphs))
            self.assertEqual(len({process for _, process in files.values()}), min(count, 3))
            self.assertTrue(all(graph.special_sizes == {(name, 7)} for name, graph in graphs.items()))
            self.assertIn("levin: training_step, validation_step, predict_step: compiling", lines)

    def test_what_fails_elsewhere_is_compiled_here(self):
        here = os.getpid()

        def work(graph):
            if os.getpid() != here:
                if graph.name == "predict_step":
                    os._exit(1)
                raise RuntimeError("no device in a copy")
            return [os.getpid()]

        self.assertEqual(self.compiled(work)[1], {name: [here] for name in ("training_step", "validation_step", "predict_step")})

    def test_errors_come_through(self):
        def work(graph):
            if graph.name == "validation_step":
                raise levin_train.ExportError("model.py:12: it cannot be compiled")
            return []

        with self.assertRaisesRegex(levin_train.ExportError, "model.py:12: it cannot be compiled"):
            self.compiled(work)


class Networks(unittest.TestCase):
    def test_operators_of_libraries(self):
        class Doubled(Base):
            def training_step(self, batch, batch_idx):
                return F.cross_entropy(doubled(self.net(batch[0])), batch[1])  # here

        with self.assertRaises(levin_train.ExportError) as raised:
            recorded(Doubled())
        with open(__file__, encoding="utf-8") as file:
            line = next(number for number, text in enumerate(file, 1) if text.endswith("# here\n"))
        self.assertIn(f"export_networks_test.py:{line}: training_step calls the operator levin_test::doubled", str(raised.exception))

    def test_what_libraries_ask_of_a_compiler(self):
        """As transformers: it decides on a mask's values unless it is compiled."""
        class Masked(Base):
            def training_step(self, batch, batch_idx):
                x, y = batch
                loss = F.cross_entropy(self.net(x), y, reduction="none")
                if torch.compiler.is_compiling() or not (y > 0).all():
                    return (loss * (y > 0)).sum() / (y > 0).sum().clamp(min=1)
                return loss.mean()

        graphs, _ = verified(Masked(), (BATCH[0], torch.ones(8, dtype=torch.long)), without=["predict_step"])
        self.assertEqual([entry for entry in graphs["training_step"].outputs if entry["kind"] == "condition"], [])
        self.assertFalse(torch.compiler.is_compiling())

    def test_writes_that_leave_the_values_as_they_were(self):
        """A teacher that begins as a copy of the student, and follows it through .data, in two ways."""
        class Teacher(Base):
            def __init__(self, assigns):
                super().__init__()
                self.teacher, self.assigns = torch.nn.Linear(6, 3).requires_grad_(False), assigns
                self.teacher.load_state_dict(self.net.state_dict())

            def training_step(self, batch, batch_idx):
                for theirs, ours in zip(self.teacher.parameters(), self.net.parameters()):
                    if self.assigns:
                        theirs.data = theirs.data * 0.9 + ours.data * 0.1
                    else:
                        theirs.data.mul_(0.9).add_(ours.data, alpha=0.1)
                return F.cross_entropy(self.net(batch[0]), batch[1]) + (self.teacher(batch[0]) - self.net(batch[0])).square().mean()

        for assigns in (True, False):
            graphs, _ = verified(Teacher(assigns), without=["predict_step"])
            self.assertEqual([entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "buffer"],
                             ["teacher.weight", "teacher.bias"])

    def test_data_that_is_assigned_to_itself(self):
        """As pytorch-metric-learning moves its weights to the device of the batch."""
        class Moving(Base):
            def training_step(self, batch, batch_idx):
                self.net.weight.data = self.net.weight.data.to(batch[0].device)
                return super().training_step(batch, batch_idx)

        graphs, _ = verified(Moving(), without=["predict_step"])
        self.assertEqual([entry for entry in graphs["training_step"].outputs if entry["kind"] == "buffer"], [])

    def test_rows_that_a_mask_takes(self):
        """The message names the mask, and the line that depends on how many rows it takes."""
        class Inside(Base):
            def training_step(self, batch, batch_idx):
                rows = batch[0][batch[1] > 0]
                return sum(self.net(rows[index]).mean() for index in range(rows.shape[0]))

        with self.assertRaises(levin_train.ExportError) as raised:
            recorded(Inside())
        self.assertRegex(str(raised.exception), r"^export_networks_test.py:(\d+): training_step cannot be recorded: what follows of rows that are taken by "
                                                r"their values at export_networks_test.py:\d+, as many as the data say, depends on their number .*masks of a fixed length")

    def test_copies_of_weights_that_are_written_to(self):
        """As torchvision's Swin leaves a part of a bias out."""
        def step(self, batch, batch_idx):
            bias = self.net.bias.clone()
            bias[1:2].zero_()
            return F.cross_entropy(F.linear(batch[0], self.net.weight, bias), batch[1])

        verified(with_step(step))

    def test_rows_that_values_take(self):
        def of(rows):
            def step(self, batch, batch_idx):
                return self.net(rows(batch[0], batch[1] == 1)).pow(2).sum() + self.net(batch[0]).sum()

            return with_step(step)

        for rows in (lambda x, mask: x[mask], lambda x, mask: x[mask.nonzero().squeeze(1)], lambda x, mask: x[mask.nonzero(as_tuple=True)],
                     lambda x, mask: x[torch.where(mask)[0]], lambda x, mask: x[torch.argwhere(mask)[:, 0]],
                     lambda x, mask: x.masked_select(mask[:, None]).reshape(-1, 6), lambda x, mask: torch.unique(x * mask[:, None], dim=0)):
            verified(of(rows))
        fixed = verified(of(lambda x, _: x[:, torch.tensor([1, 1, 0, 1, 1, 0]).nonzero().squeeze(1).repeat(2)[:6]]))[0]["training_step"]
        self.assertFalse([node for node in fixed.module.graph.nodes if "nonzero" in str(node.target)])

    def test_branches_on_how_many_rows_are_taken(self):
        """As DeBERTa's loss has it: the package goes the way of the example, and checks that a batch does."""
        def by_index(self, batch, batch_idx):
            rows = (batch[1] >= 1).nonzero()
            if rows.size(0) > 0:
                return F.cross_entropy(self.net(batch[0])[rows.view(-1)], batch[1][rows.view(-1)])
            return self.net(batch[0]).sum() * 0

        def by_mask(self, batch, batch_idx):
            rows = batch[0][batch[1] == 7]
            return self.net(batch[0]).mean() if len(rows) == 0 else self.net(rows).sum()

        graphs = [verified(with_step(step))[0]["training_step"] for step in (by_index, by_mask)]
        self.assertEqual([[entry["taken"] for entry in graph.outputs if entry["kind"] == "condition"] for graph in graphs], [[True], [True]])
        for graph, labels, holds in ((graphs[0], 2, True), (graphs[0], 0, False), (graphs[1], 2, True), (graphs[1], 7, False)):
            batch = {"0": BATCH[0][:4], "1": torch.tensor([0, 0, labels, 0])}
            weights = {**graph.step.weights.parameters, **graph.step.weights.buffers, **batch}
            found = graph.module(*(weights[entry["name"]] for entry in graph.inputs))
            self.assertEqual([bool(value) for entry, value in zip(graph.outputs, found) if entry["kind"] == "condition"], [holds])

    def test_a_module_under_two_names(self):
        """Its weights are the same afterwards, not those that were recorded with."""
        def step(self, batch, batch_idx):
            return F.cross_entropy(self.first(batch[0]) + self.second[0](batch[0]), batch[1])

        module = with_step(step)
        module.first = torch.nn.Linear(6, 3)
        module.second = torch.nn.Sequential(module.first)
        before = dict(module.named_parameters(remove_duplicate=False))
        verified(module)
        after = dict(module.named_parameters(remove_duplicate=False))
        self.assertEqual(list(after), list(before))
        self.assertTrue(all(after[name] is before[name] for name in before))

    def test_copies_of_tensors(self):
        def step(self, batch, batch_idx):
            kept = copy.deepcopy({"scale": torch.tensor(2.0), "again": self.rate})
            return F.cross_entropy(self.net(batch[0]), batch[1]) * kept["scale"] * kept["again"]

        verified(with_step(step))

    def test_numbers_of_the_run_in_other_packages(self):
        """As lightly's schedules compute with an epoch, in a package that has none of the module's classes."""
        with tempfile.TemporaryDirectory() as folder:
            packages = pathlib.Path(folder) / "site-packages"
            packages.mkdir()
            (packages / "levin_schedules.py").write_text("import math\ndef schedule(step):\n    return float(math.cos(step) if step < 20 else 0.5)\n")
            with unittest.mock.patch.object(sys, "path", [str(packages), *sys.path]):
                import levin_schedules

            def step(self, batch, batch_idx):
                return F.cross_entropy(self.net(batch[0]), batch[1]) * levin_schedules.schedule(self.current_epoch)

            graph = verified(with_step(step))[0]["training_step"]
            self.assertEqual(len(graph.step.courses), 2)
            self.assertIs(vars(levin_schedules).get("float", float), float)

    def test_lengths_in_other_packages(self):
        """As pytorch-metric-learning has len() of a batch and of pairs, in losses that are no modules of the user's."""
        with tempfile.TemporaryDirectory() as folder:
            packages = pathlib.Path(folder) / "site-packages"
            packages.mkdir()
            (packages / "levin_pairs.py").write_text("def mean(values, labels):\n    assert len(values) == len(labels)\n    rows = (labels > 0).nonzero()[:, 0]\n"
                                                     "    return values[rows].sum() / len(values) if len(rows) > 0 else values.sum() * 0\n")
            with unittest.mock.patch.object(sys, "path", [str(packages), *sys.path]):
                import levin_pairs

            verified(with_step(lambda self, batch, _: levin_pairs.mean(self.net(batch[0]), batch[1])))

    def test_tables_that_end_where_a_branch_does(self):
        """The way that is not taken has an index beyond its table."""
        def step(self, batch, batch_idx):
            rate = torch.linspace(1, 2, 5)[self.current_epoch] if self.current_epoch < 5 else 3.0
            return F.cross_entropy(self.net(batch[0]), batch[1]) * rate

        graph = verified(with_step(step))[0]["training_step"]
        self.assertEqual({course.numbers["current_epoch"] < 5 for course in graph.step.courses}, {True, False})
        with self.assertRaisesRegex(levin_train.ExportError, "An index is beyond the end of a tensor"):
            recorded(with_step(lambda self, batch, _: self.net(batch[0]).mean() * torch.ones(2)[self.current_epoch]))

    def test_metrics_that_the_step_sets(self):
        """As losses of pytorch-forecasting take the transformation of their batch."""
        class Scaled(torchmetrics.MeanMetric):
            def update(self, value):
                super().update(value * self.scale)

        def step(self, batch, batch_idx):
            self.metric.scale = 3.0
            return self.metric(F.cross_entropy(self.net(batch[0]), batch[1], reduction="none"))

        module = with_step(step)
        module.metric = Scaled()
        verified(module)

    def test_rows_that_are_summed_up(self):
        """In the backward pass torch asks how many numbers there are."""
        def step(self, batch, batch_idx):
            return self.net(batch[0][batch[1] == 1]).cumsum(1).pow(2).sum()

        verified(with_step(step))

    def test_einsum_of_three(self):
        """With opt_einsum torch computes the order of products from sizes."""
        asked = []

        class Paths:
            @staticmethod
            def contract_path(equation, *operands, optimize=None, shapes=False):
                asked.extend(operands if shapes else [])
                return [(1, 2), (0, 1)], None

        class Sums(Base):
            def training_step(self, batch, batch_idx):
                x, y = batch
                return F.cross_entropy(torch.einsum("bi,oi,op->bp", x, self.net.weight, torch.eye(3)), y)

        with unittest.mock.patch.multiple(torch.backends.opt_einsum, is_available=lambda: True, get_opt_einsum=lambda: Paths, _opt_einsum=Paths):
            graph = recorded(Sums())
        self.assertEqual([entry["shape"] for entry in graph.inputs if entry["kind"] == "batch"], [["batch", 6], ["batch"]])
        self.assertEqual([len(shape) for shape in asked], [2, 2, 2])
        self.assertTrue(all(type(size) is int for shape in asked for size in shape))


if __name__ == "__main__":
    unittest.main()
