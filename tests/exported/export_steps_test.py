"""Tests of what levin_train.export() takes of a step, and that the recorded graph gives what the module gives: loss, every gradient,
buffers and logged values.

    python tests/exported/export_steps_test.py

Nothing is compiled here: export_packages_test.py does that.
"""

import itertools
import math
import os
import pathlib
import tempfile
import time
import types
import unittest
import unittest.mock
from math import cos

from recorded_graphs import BATCH, Base, Refused, line_with, verified, with_step  # also makes levin known

import numpy
import torch
import torch.nn.functional as F
from torch import nn

from levin_train import reference

HERE = "export_steps_test.py"


class Attributes(Refused):
    """What a step leaves on its module."""

    def test_what_the_first_step_sets(self):
        def step(self, batch, batch_idx):
            if not hasattr(self, "problem"):
                self.problem = "classes"
            if self.mask is None:
                self.mask = torch.arange(3) > 0
            self.config.kind = "classes"
            return (F.cross_entropy(self.net(batch[0]), batch[1], reduction="none") * self.mask[batch[1]]).mean()

        config = type("Config", (), {"kind": None})()
        module = with_step(step, mask=None, config=config)
        module.config, module.mask = config, None
        verified(module)
        self.assertEqual((hasattr(module, "problem"), module.mask, config.kind), (False, None, None))  # as before

    def test_what_a_hook_puts_aside_in_each_step(self):
        def step(self, batch, batch_idx):
            return F.cross_entropy(self.net(batch[0]), batch[1]) + self.kept_features["h"].pow(2).mean()

        module = with_step(step)
        module.kept_features = {}
        module.net.register_forward_hook(lambda layer, given, result: module.kept_features.__setitem__("h", result))
        verified(module)
        self.assertEqual(module.kept_features, {})

    def test_what_the_step_before_has_left(self):
        def step(self, batch, batch_idx):
            out = self.net(batch[0]).mean(0)
            loss = (out - self.last_out).pow(2).mean() + out.sum()
            self.last_out = out.detach()
            return loss

        module = with_step(step)
        module.last_out = torch.zeros(3)
        self.refused(module, "reads self.last_out, which the step before has left there")

    def test_both_values_and_the_line(self):
        def deeper(self):
            self.options["rate"] *= 0.5  # halved

        def step(self, batch, batch_idx):
            self.deeper()
            return Base.training_step(self, batch, batch_idx) * self.options["rate"]

        module = with_step(step, deeper=deeper)
        module.options = {"rate": 1.0}
        self.refused(module, "the step changes self.options", line=line_with(__file__, "halved"))
        self.assertEqual(module.options, {"rate": 1.0})

        def counts(self, batch, batch_idx):
            self.count += 1  # counted
            return Base.training_step(self, batch, batch_idx)

        self.refused(with_step(counts), "self.count from 2 to 3", line=line_with(__file__, "counted"))

    def test_pruned_layers(self):
        module = Base()
        torch.nn.utils.prune.random_unstructured(module.net, "weight", 0.3)
        graphs, _ = verified(module)
        self.assertIn("net.weight_orig", [entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "gradient"])

    def test_lists_for_hooks_that_are_left_out(self):
        class Collecting(Base):
            def training_step(self, batch, batch_idx):
                loss = super().training_step(batch, batch_idx)
                self.losses.append(loss.detach())
                return loss

            def on_train_epoch_end(self):
                self.log("mean", torch.stack(self.losses).mean())
                self.losses.clear()

            def __init__(self):
                super().__init__()
                self.losses = []

        module = Collecting()
        _, notes = verified(module, without=["on_train_epoch_end"])
        self.assertIn("self.losses takes values for hooks that are left out, and is left out too", notes)
        self.assertEqual(module.losses, [])
        Collecting.training_step = lambda self, batch, batch_idx: Base.training_step(self, batch, batch_idx) * len(self.losses.append(1) or self.losses)
        self.refused(Collecting(), "the step changes self.losses", without=["on_train_epoch_end"])


class Slotted:
    __slots__ = ("n", "inner")

    def __init__(self, inner=None):
        self.n, self.inner = 0, inner

    def add(self):
        self.n += 1  # in slots


class Lengthless(tuple):
    """As e3nn's Irrep."""

    def __len__(self):
        raise NotImplementedError


def counter():
    n = 0

    def count():
        nonlocal n
        n += 1  # in a closure

    return count


GLOBAL, ITERATED, COUNTED = Slotted(), itertools.count(), counter()


class Hidden(Refused):
    """Counters that training reads much later, and that no comparison of values shows."""

    def counts(self, where, name, how, **attributes):
        def step(self, batch, batch_idx):
            how(self)
            return Base.training_step(self, batch, batch_idx)

        module = with_step(step)
        vars(module).update(attributes)
        self.refused(module, f"the step changes {name}", line=line_with(__file__, where))

    def test_objects(self):
        deep = Slotted(types.SimpleNamespace(a=[{"b": Slotted(Slotted())}]))
        self.counts("in slots", "self.counts", lambda self: self.counts.add(), counts=Slotted())
        self.counts("in slots", "self.deep", lambda self: self.deep.inner.a[0]["b"].inner.add(), deep=deep)
        self.counts("in slots", "GLOBAL of ", lambda self: GLOBAL.add())
        self.counts("in a closure", "self.counted", lambda self: self.counted(), counted=counter())
        self.counts("in a closure", "COUNTED of ", lambda self: COUNTED())
        self.counts("iterated", "ITERATED of ", lambda self: next(ITERATED))  # iterated

    def test_closure_of_a_step(self):
        n = 0

        def step(self, batch, batch_idx):
            nonlocal n
            n += 1  # around the step
            return Base.training_step(self, batch, batch_idx)

        self.refused(with_step(step), "the step changes training_step of Model", line=line_with(__file__, "around the step"))

    def test_classes(self):
        class Classed(Base):
            seen, kept_values, limits = 0, [], {"a": 1}

            def training_step(self, batch, batch_idx):
                type(self).seen += 1  # of the class
                return super().training_step(batch, batch_idx) / self.seen

        class Listing(Classed):
            def training_step(self, batch, batch_idx):
                self.kept_values.append(1)  # of its list
                return Base.training_step(self, batch, batch_idx) * len(self.kept_values)

        class Once(Classed):
            def training_step(self, batch, batch_idx):
                if not hasattr(type(self), "table"):
                    type(self).table = torch.arange(3)
                self.__class__.limits = {"a": 2}
                return (self.net(batch[0]) * self.table).mean() * self.limits["a"]

        self.refused(Classed(), "the step changes self.seen from 2 to 3", line=line_with(__file__, "of the class"))
        self.refused(Listing(), "the step changes self.kept_values", line=line_with(__file__, "of its list"))
        verified(Once())
        self.assertEqual((Classed.seen, Classed.kept_values, Once.limits, hasattr(Once, "table"), "limits" in vars(Once)), (0, [], {"a": 1}, False, False))

    def test_tuples_without_a_length(self):
        module = Base()
        module.irrep = Lengthless((1, 2))
        verified(module)


class Numbers(Refused):
    """Numbers of the run, and of values, in Python's own arithmetic."""

    def test_arithmetic(self):
        def step(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            n = self.global_step
            factor = 0.5 * (1 + math.cos(math.pi * n / 10)) + cos(n) + min(1.0, n / 5) + max(0.1, 2 - n) + (n % 3) + n // 2 - 7 % (n + 1)
            factor = factor + 2 ** (self.current_epoch / 4) + 0.9 ** n + n ** 2 - (-n) + abs(-n) + math.floor(n / 3) + round(n / 7, 1) + math.exp(-n)
            factor = factor + (n > 3) * 2 + (n == 2) - numpy.cos(n) + numpy.minimum(n, 4) + math.sqrt(n + 1) + sum([n, 1]) + math.log(n + 2, 10)
            self.log("factor", factor)
            self.log("step", n)
            self.log("exp", math.exp(loss) + loss.item() / 3)
            return loss * factor + self.net.weight.pow(2).sum() * (1 - n) + torch.tensor([n, 2.0]).sum() + (batch[1] * n).sum() + torch.tensor(n > 2)

        verified(with_step(step))

    def test_integers_and_types(self):
        def step(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            return {"loss": loss * self.global_step, "whole": batch[1] * batch_idx, "half": batch[1] * (batch_idx / 2), "above": batch[1] > batch_idx,
                    "of_a_mask": (batch[1] > 0) * batch_idx, "chosen": torch.where(batch[1] > 0, self.global_step, 0.5)}

        graphs, _ = verified(with_step(step))
        outcome = {}

        def kept(*arguments):
            outcome.update(real(*arguments))
            return dict(outcome)

        real = reference.outcome
        with unittest.mock.patch("levin_train.reference.outcome", kept):
            verified(with_step(step))
        outputs = list(graphs["training_step"].module.graph.nodes)[-1].args[0]
        for entry, node in zip(graphs["training_step"].outputs, outputs):
            if entry["kind"] == "extra":
                self.assertEqual(node.meta["val"].dtype, outcome["extra", entry["name"]].dtype, entry["name"])

    def test_fixed_values_of_the_trainer(self):
        def step(self, batch, batch_idx):
            return Base.training_step(self, batch, batch_idx) * (1 - self.current_epoch / self.trainer.max_epochs)  # of the trainer

        self.refused(with_step(step), 'trainer={"max_epochs": …}', line=line_with(__file__, "of the trainer"))
        verified(with_step(step), trainer={"max_epochs": 50})

    def test_numbers_that_are_no_data(self):
        def step(self, batch, batch_idx):
            axes = torch.arange(1, len(batch[0].shape)).tolist()
            width = int(torch.tensor([6, 8]).min()) + torch.linspace(0, 1, 3).numpy().size
            rows = torch.nonzero(torch.tensor([0, 1, 1]))
            near = batch[1].unsqueeze(1) == torch.nonzero(torch.eye(3))[:, 0]
            chosen = 2.0 if torch.tensor([1.0, 2.0]).sum() > 2 else 5.0
            return Base.training_step(self, batch, batch_idx) * width * rows.sum() * chosen + batch[0].sum(axes).mean() + near.float().mean()

        graphs, _ = verified(with_step(step))
        self.assertEqual([entry for entry in graphs["training_step"].outputs if entry["kind"] == "condition"], [])

    def test_values_of_data_stay_refused(self):
        for step, wanted in ((lambda self, batch, _: self.net(batch[0]).mean() * numpy.asarray(batch[1]).max(), "given to numpy"),
                             (lambda self, batch, _: self.net(batch[0]).mean() * int(torch.zeros(3).add_(batch[1].max()).sum()), "masks over"),
                             (lambda self, batch, _: self.net(batch[0]).mean() * len(range(int(torch.rand(1).item() * 3))), "a random number is made Python's own"),
                             (lambda self, batch, i: self.net(batch[0])[:, :i].mean(), "for sizes use a mask"),
                             (lambda self, batch, i: self.net(batch[0]).mean() * [1.0, 2.0][i], "torch.tensor(values)[number]"),
                             (lambda self, batch, i: self.net(batch[0]).mean() * {0: 1.0}[i], "torch.gather")):
            with self.subTest(wanted):
                self.refused(with_step(step), wanted)


class Random(Refused):
    def test_conditions_on_random_numbers(self):
        def step(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            if torch.rand(()) < self.chance:  # drawn
                loss = loss * 2
            return loss

        self.refused(with_step(step, chance=0.5), "the step decides on a random number", line=line_with(__file__, "drawn"))
        for chance in (0.0, -1.0, 1.0):  # known, whatever is drawn
            graphs, _ = verified(with_step(step, chance=chance))
            self.assertEqual([entry for entry in graphs["training_step"].outputs if entry["kind"] == "condition"], [])

    def test_seeds_and_generators(self):
        def seeded(self, batch, batch_idx):
            torch.manual_seed(self.global_step)  # seeded
            return Base.training_step(self, (batch[0] + torch.randn_like(batch[0]), batch[1]), batch_idx)

        def generated(self, batch, batch_idx):
            noise = torch.randn(6, generator=torch.Generator().manual_seed(0))  # generated
            return Base.training_step(self, (batch[0] + noise, batch[1]), batch_idx)

        self.refused(with_step(seeded), "the step sets the seed", line=line_with(__file__, "seeded"))
        self.refused(with_step(generated), "randn() draws of a generator of its own", line=line_with(__file__, "generated"))

    def test_conditions_on_values_with_random_numbers(self):
        def step(self, batch, batch_idx):
            loss = F.cross_entropy(F.dropout(self.net(batch[0]), 0.2), batch[1])
            return loss if not torch.isnan(loss) else loss * 0

        graphs, _ = verified(with_step(step))
        self.assertEqual([entry["taken"] for entry in graphs["training_step"].outputs if entry["kind"] == "condition"], [False])

    def test_generators_of_numpy(self):
        def step(self, batch, batch_idx):
            return Base.training_step(self, batch, batch_idx) * numpy.random.beta(1, 1)  # mixed

        self.refused(with_step(step), "torch.distributions", line=line_with(__file__, "mixed"))


class Besides(Refused):
    """What a step does besides computing."""

    def test_learning_rate_and_time(self):
        def step(self, batch, batch_idx):
            begun = time.time()
            self.log("lr", self.optimizers().param_groups[0]["lr"])
            self.log_dict({"lr2": self.trainer.optimizers[0].param_groups[0]["lr"] * 2, "lr3": self.lr_schedulers().get_last_lr()[0],
                           "lr4": self.trainer.lr_scheduler_configs[0].scheduler.get_last_lr()[0]})
            self.log("seconds", time.time() - begun)
            return Base.training_step(self, batch, batch_idx)

        graphs, notes = verified(with_step(step))
        self.assertEqual([entry for entry in graphs["training_step"].outputs if entry["kind"] == "log"], [])
        self.assertEqual(len([note for note in notes if "LearningRateMonitor" in note and note.startswith(HERE)]), 4)
        self.assertTrue(any('"seconds" is left out' in note and "ThroughputMonitor" in note for note in notes))

    def test_computing_with_what_a_package_lacks(self):
        for step, wanted in ((lambda self, batch, i: Base.training_step(self, batch, i) * self.optimizers().param_groups[0]["lr"], "the learning rate"),
                             (lambda self, batch, i: self.optimizers().param_groups[0]["lr"] * Base.training_step(self, batch, i), "the learning rate"),
                             (lambda self, batch, i: Base.training_step(self, batch, i) * (time.time() - 3), "the time"),
                             (lambda self, batch, i: Base.training_step(self, batch, i) * (2 if time.time() > 3 else 1), "decides on the time"),
                             (lambda self, batch, i: self.optimizers().step(), "Manual optimization"),
                             (lambda self, batch, i: self.optimizers().param_groups[0].__setitem__("lr", 1), "sets lr"),
                             (lambda self, batch, i: setattr(self.trainer, "should_stop", True), "EarlyStopping"),
                             (lambda self, batch, i: self.trainer.save_checkpoint("x"), "calls self.trainer.save_checkpoint()"),
                             (lambda self, batch, i: Base.training_step(self, batch, i) * self.trainer.datamodule.scale, "self.trainer.datamodule.scale")):
            with self.subTest(wanted):
                self.refused(with_step(step), wanted)

    def test_print_and_logger(self):
        def step(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            print(f"step {batch_idx} of {self.current_epoch:>3}: {loss:.3f}", loss)
            self.print("once")
            self.logger.experiment.add_scalar("x", loss, self.global_step)
            if self.logger:
                raise RuntimeError("a package has no logger")
            return loss

        _, notes = verified(with_step(step))
        self.assertEqual(len([note for note in notes if "print() prints when the module is exported" in note]), 2)
        self.assertTrue(any("self.logger.experiment.add_scalar() is left out" in note and note.startswith(HERE) for note in notes))

    def test_names_of_what_a_package_lacks(self):
        def stage(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            self.log(f"{self.trainer.state.stage.value}_loss", loss)
            return loss

        def other(self, batch, batch_idx):
            self.log(f"{self.trainer.default_root_dir}_loss", 1.0)  # named
            return Base.training_step(self, batch, batch_idx)

        graph = verified(with_step(stage))[0]["training_step"]
        self.assertEqual([entry["name"] for entry in graph.outputs if entry["kind"] == "log"], ["train_loss"])
        self.refused(with_step(other), "is made of what a package does not have", line=line_with(__file__, "named"))

    def test_branches_that_only_log(self):
        def step(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            if self.training and batch_idx % 5 == 0:
                value = loss * 2
                self.log("doubled", value)
            if not self.global_step % self.trainer.log_every_n_steps:
                self.log_dict({"tripled": loss * 3})
            if not batch_idx % 3 and not batch_idx % 2:
                self.log("fourfold", loss * 4)
            return loss

        graphs, notes = verified(with_step(step))
        self.assertEqual([entry["name"] for entry in graphs["training_step"].outputs if entry["kind"] == "log"], ["doubled", "tripled", "fourfold"])
        self.assertEqual(len([note for note in notes if "the package logs in every step" in note]), 3)

    def test_branches_that_do_more(self):
        """The package has both ways, and is compared on both."""
        def assigns(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            if batch_idx % 5 == 0:
                self.log("loss", loss)  # assigns
                loss = loss * 2
            return loss

        def warmed(self):
            if self.current_epoch < self.warm:
                return self.current_epoch / self.warm
            return 1.0

        def grows(self, batch, batch_idx):
            hidden = self.drop(self.net(batch[0]))
            weight = warmed(self)
            self.log("weight", weight)
            loss = F.cross_entropy(hidden, batch[1]) + weight * hidden.pow(2).sum()
            return loss if self.global_step <= 1000 else loss + hidden.abs().mean()

        graphs, notes = verified(with_step(assigns))
        self.assertEqual([entry["kind"] for entry in graphs["training_step"].outputs], ["loss", "gradient", "gradient", "condition"])
        self.assertTrue(any(note.startswith(f"{line_with(__file__, 'assigns')}: \"loss\" is left out") for note in notes))
        module = with_step(grows, type("Warmed", (Base,), {"__module__": __name__}))
        module.warm, module.drop = 40, nn.Dropout(0.5)
        graph = verified(module)[0]["training_step"]
        self.assertEqual({course.numbers["current_epoch"] < 40 for course in graph.step.courses}, {True, False})
        self.assertEqual(len([node for node in graph.module.graph.nodes if node.target is torch.ops.aten.native_dropout.default]), 1)

    def test_floats_of_numbers_of_the_run(self):
        """As lightly's cosine_schedule() ends."""
        def step(self, batch, batch_idx):
            momentum = 1 - (numpy.cos(numpy.pi * self.current_epoch / 10) + 1) / 2
            loss = Base.training_step(self, batch, batch_idx) * float(momentum)
            return loss if isinstance(batch_idx, (int, float)) or float(1) == 1.0 else None

        graph = verified(with_step(step))[0]["training_step"]
        self.assertIn("current_epoch", [entry["name"] for entry in graph.inputs])

    def test_branches_that_cannot_be_both(self):
        def freezes(self, batch, batch_idx):
            with torch.set_grad_enabled(bool(self.current_epoch > 3)):  # freezes
                hidden = self.net(batch[0])
            return F.cross_entropy(self.head(hidden), batch[1])

        def thaws(self, batch, batch_idx):
            hidden = self.net(batch[0])
            return F.cross_entropy(self.head(torch.where(torch.tensor(self.current_epoch < 10), hidden.detach(), hidden)), batch[1])

        def draws(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            return loss * torch.rand(2).sum() if self.current_epoch > 3 else loss * torch.rand(3).sum()  # draws

        def many(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            for step in range(8):
                if self.global_step > step:  # many
                    loss = loss * 1.1
            return loss

        module = with_step(freezes)
        module.head = nn.Linear(3, 3)
        found = self.refused(module, "the parameter net.weight gets a gradient on one way alone", line=line_with(__file__, "freezes"))
        self.assertIn("torch.where(torch.tensor(self.current_epoch < 10), hidden.detach(), hidden)", found)
        module.__class__ = type(with_step(thaws))
        verified(module)
        self.refused(with_step(draws), "draws other random numbers on one way", line=line_with(__file__, "draws"))
        self.refused(with_step(many), "depends on global_step, which changes in a run, and takes more than 4 ways", line=line_with(__file__, "many"))

    def test_advice_on_what_cannot_be_read(self):
        def frozen(self, batch, batch_idx):
            self.net.requires_grad_(self.current_epoch > 0)  # frozen
            return Base.training_step(self, batch, batch_idx)

        def normed(self, batch, batch_idx):
            return Base.training_step(self, (self.norm(batch[0]), batch[1]), batch_idx)  # normed

        self.assertIn("torch.where(torch.tensor(self.current_epoch < 10), hidden.detach(), hidden)",
                      self.refused(with_step(frozen), "requires_grad_() takes", line=line_with(__file__, "frozen")))
        module = with_step(normed)
        module.norm = nn.BatchNorm1d(6, momentum=None)
        self.assertIn("momentum=0.1", self.refused(module, "a normalization with momentum=None", line=line_with(__file__, "normed")))

    def test_a_difference_of_unknown_cause(self):
        def step(self, batch, batch_idx):
            try:
                factor = 1 / (self.global_step % 2)
            except ZeroDivisionError:
                factor = 3.0
            return Base.training_step(self, batch, batch_idx) * factor

        message = self.refused(with_step(step), "loss of the compiled step differs from the module's by inf: inf in place of ")
        self.assertIn("numbers of the run (batch_idx = 0, dataloader_idx = 1, global_step = 2, current_epoch = 3)", message)
        self.assertIn("exceptions that it catches", message)

    def test_branches_that_are_never_taken(self):
        def step(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            if batch_idx < 10 and hasattr(self.trainer, "datamodule") and isinstance(self.trainer.datamodule, int):
                loss = loss * 2
            return loss

        _, notes = verified(with_step(step))
        self.assertTrue(any("isinstance(self.trainer.datamodule, int) does not hold" in note for note in notes))

    def test_files_and_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.txt"

            def writes(self, batch, batch_idx):
                path.write_text("step")  # written
                return Base.training_step(self, batch, batch_idx)

            def reads(self, batch, batch_idx):
                return Base.training_step(self, batch, batch_idx) * float(path.read_text()) * float(os.environ.get("LEVIN_SCALE", "1"))

            self.refused(with_step(writes), "writes the file", line=line_with(__file__, "written"))
            self.assertFalse(path.exists())
            path.write_text("2")
            _, notes = verified(with_step(reads))
            self.assertTrue(any("the step reads the file" in note for note in notes), notes)
            self.assertTrue(any("environment variable LEVIN_SCALE" in note for note in notes), notes)

    def test_what_is_compiled_already(self):
        class Compiled(Base):
            def __init__(self):
                super().__init__()
                self.inner = torch.compile(nn.Linear(6, 6))
                self.second = nn.Linear(6, 6)
                self.second.compile()
                self.function = torch.compile(lambda x: torch.sin(x) * 2)

            def training_step(self, batch, batch_idx):
                hidden = self.function(compiled(self.second(self.inner(batch[0]))))
                return super().training_step((scripted(hidden), batch[1]), batch_idx)

        module = Compiled()
        before = vars(module.inner)["forward"]
        verified(module)
        self.assertIs(vars(module.inner)["forward"], before)
        scripted_part = Base()
        scripted_part.inner = torch.jit.script(nn.Linear(6, 6))
        self.refused(scripted_part, "without torch.jit")

    def test_one_name_twice(self):
        def same(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            self.log("loss", loss, on_epoch=True)
            self.log("loss", loss, on_epoch=True)
            self.log("last", loss)
            self.log("last", loss * 2)
            self.log("mean", loss, on_step=False, on_epoch=True)
            self.log("mean", loss * 3, on_step=False, on_epoch=True)
            return loss

        graph = verified(with_step(same))[0]["training_step"]
        self.assertEqual([entry["name"] for entry in graph.outputs if entry["kind"] == "log"], ["loss", "last", "mean"])
        outcome = reference.outcome(graph.step, dict.fromkeys(("batch_idx", "dataloader_idx", "global_step", "current_epoch"), 0),
                                    graph.step.weights.parameters, graph.step.weights.buffers, list(BATCH))
        loss = outcome["loss", None]
        self.assertEqual([float(outcome["log", name] / loss) for name in ("loss", "last", "mean")], [1.0, 2.0, 2.0])

        def options(self, batch, batch_idx):
            loss = Base.training_step(self, batch, batch_idx)
            self.log("loss", loss)
            self.log("loss", loss, prog_bar=True)
            return loss

        self.refused(with_step(options), "twice in one step with different options")


@torch.compile
def compiled(x):
    return x + 1


@torch.jit.script
def scripted(x):
    return x * 0.5 * (1.0 + torch.tanh(0.8 * x * (1 + 0.04 * x * x)))


if __name__ == "__main__":
    unittest.main()
