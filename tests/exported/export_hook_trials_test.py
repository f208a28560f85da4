"""Tests of hooks that levin_train.export() runs on a copy of the module before it leaves them out: those that change training, in ways which their
source does not show, are refused; and what is run leaves no trace.

    python tests/exported/export_hook_trials_test.py

Nothing is compiled here.
"""

import contextlib
import functools
import io
import os
import random
import tempfile
import time
import types
import unittest
import unittest.mock

from recorded_graphs import Base, Refused, verified  # also makes levin known

import torch
import torch.nn.functional as F
from torch import nn

from levin_train import hook_trials

HELD = []  # networks that a function without arguments changes


def model(base=Base, **members):
    return type("Model", (base,), {"__module__": __name__, **members})


def halve_what_is_held():
    for parameter in HELD[-1].parameters():
        parameter.data *= 0.5


def with_scale(self, batch, batch_idx):
    return Base.training_step(self, batch, batch_idx) * self.settings.scale * self.weights["scale"]


def evaluates(self, batch, batch_idx):
    self.log("val_loss", F.cross_entropy(self.net(batch[0]), batch[1]))


class Pruner:
    def __init__(self, net):
        self.net = net

    def step(self):
        for parameter in self.net.parameters():
            parameter.data.mul_(0.5)


class Average:
    """Weights that validation swaps with those that are trained."""

    def __init__(self, net):
        self.net, self.kept = net, [parameter.detach().clone() for parameter in net.parameters()]

    def swap(self):
        for kept, parameter in zip(self.kept, self.net.parameters()):
            values = kept.clone()
            kept.copy_(parameter)
            parameter.data.copy_(values)


class Annealed(nn.Linear):
    def __init__(self):
        super().__init__(6, 3)
        self.heat = 1.0

    def forward(self, x):
        return super().forward(x) / self.heat

    def anneal(self):
        self.heat *= 0.5


class Trials(Refused):
    def module(self, prepare=None, **members):
        module = model(training_step=with_scale, validation_step=evaluates, **members)()
        module.settings, module.weights, module.seen = types.SimpleNamespace(scale=1.0), {"scale": 1.0}, []
        if prepare:
            prepare(module)
        return module

    def changes(self, name, hook, wanted, prepare=None, alone=False, **members):
        """The hook is refused, and the module stays as it was. `alone`: also where it cannot be run, by its source."""
        for ways in ("run", "source") if alone else ("run",):
            with self.subTest(hook=hook.__name__, ways=ways):
                module = self.module(prepare, **{name: hook}, **members)
                HELD[:] = [module]
                before = {key: tensor.clone() for key, tensor in module.state_dict().items()}
                with unittest.mock.patch("levin_train.hook_trials.changes", hook_trials.changes if ways == "run" else lambda *_: ({}, {})):
                    message = self.refused(module, f"{name}() at {os.path.basename(__file__)}:{hook.__code__.co_firstlineno} (")
                self.assertIn(wanted if ways == "run" else "(it ", message)
                for key, tensor in module.state_dict().items():
                    self.assertTrue(torch.equal(tensor, before[key]), key)

    def test_weights_and_gradients_by_another_name(self):
        def of_parameters(self):
            with torch.no_grad():
                for parameter in self.parameters():
                    parameter *= 0.5

        def of_data(self):
            weight = self.net.weight.data
            weight *= 0.5

        def of_numpy(self):
            values = self.net.weight.detach().numpy()
            values *= 0.5

        def of_gradient(self):
            for parameter in self.parameters():
                gradient = parameter.grad
                gradient *= 0.01

        for hook in (of_parameters, of_data, of_numpy, of_gradient):
            self.changes("on_after_backward", hook, "(it changes ", alone=True)

    def test_own_objects(self):
        def variable(self):
            settings = self.settings
            settings.scale *= 0.5

        def rate(self):
            for group in self.chosen.param_groups:
                group["lr"] *= 0.5

        def configure_optimizers(self):
            self.chosen = torch.optim.SGD(self.parameters(), lr=0.1)
            return self.chosen

        def pruned(self):
            self.pruner.step()

        self.changes("on_train_epoch_end", variable, "it changes self.settings", alone=True)
        self.changes("on_train_epoch_end", rate, "it changes self.chosen", configure_optimizers=configure_optimizers, alone=True)
        self.changes("on_train_epoch_end", pruned, "it changes the parameter net.weight", lambda module: setattr(module, "pruner", Pruner(module.net)))

    def test_rates_by_an_object_of_the_run(self):
        def rate(self):
            self.halver.halve()

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            self.halver = types.SimpleNamespace(halve=lambda: optimizer.param_groups[0].update(lr=0.01))
            return optimizer

        self.changes("on_validation_end", rate, "it changes lr of the optimizer's group 0", configure_optimizers=configure_optimizers)

    def test_other_ways_to_weights(self):
        def out(self):
            with torch.no_grad():
                torch.lerp(self.net.weight, torch.zeros(3, 6), 0.5, out=self.net.weight)

        def of_state(self):
            state = self.state_dict()
            for name in state:
                state[name][...] = 0.5

        def mapped(self):
            list(map(torch.Tensor.zero_, (parameter.data for parameter in self.parameters())))

        def read(self):
            self.log("decay", self.decay)

        def decay(self):
            self.net.weight.data.mul_(0.5)
            return 1.0

        def held(self):
            halve_what_is_held()

        for hook in (out, of_state, mapped):
            self.changes("on_train_epoch_end", hook, "(it ", alone=True)
        self.changes("on_train_epoch_end", read, "(it calls mul_()", alone=True, decay=property(decay))
        self.changes("on_train_epoch_end", held, "it changes the parameter net.weight")

    def test_hooks_of_validation(self):
        def updates(self):
            self.weights.update(scale=0.1)

        def anneals(self):
            self.net.anneal()

        def swaps(self):
            self.average.swap()

        self.changes("on_validation_epoch_end", updates, "it changes self.weights")
        self.changes("on_validation_epoch_end", anneals, "it changes self.net.heat from 1.0 to 0.5", lambda module: setattr(module, "net", Annealed()))
        self.changes("on_validation_epoch_start", swaps, "it changes the parameter net.weight",
                     lambda module: setattr(module, "average", Average(module.net)))

    def test_what_a_hook_is_given(self):
        def scales(self, batch, batch_idx):
            self.scaler.scale(batch)

        for name in ("on_train_batch_start", "on_validation_batch_start"):
            self.changes(name, scales, "it changes what it is given",
                         lambda module: setattr(module, "scaler", types.SimpleNamespace(scale=lambda batch: batch[0].mul_(0.5))))

    def test_only_each_hundredth_step(self):
        def pruned(self):
            if self.global_step > 50:
                self.pruner.step()

        self.changes("on_train_epoch_end", pruned, "it changes the parameter net.weight", lambda module: setattr(module, "pruner", Pruner(module.net)))

    def test_decorators(self):
        def halves(hook):
            @functools.wraps(hook)
            def wrapped(self, *arguments):
                self.net.weight.data.mul_(0.5)
                return hook(self, *arguments)

            return wrapped

        def timed(hook):
            @functools.wraps(hook)
            def wrapped(self, *arguments):
                begun = time.time()
                found = hook(self, *arguments)
                self.log("seconds", time.time() - begun)
                return found

            return wrapped

        def nothing(self):
            pass

        def logs(self):
            self.log("norm", self.net.weight.norm())

        hook = halves(nothing)
        message = self.refused(self.module(on_train_epoch_end=hook), "it calls mul_()")
        self.assertIn(f":{nothing.__code__.co_firstlineno} ", message)
        for decorated in (timed(nothing), timed(logs), torch.no_grad()(logs)):
            _, notes = verified(self.module(on_train_epoch_end=decorated))
            line = f"{os.path.basename(__file__)}:{decorated.__wrapped__.__code__.co_firstlineno}"
            self.assertTrue(any(note.startswith(f"{line}: on_train_epoch_end() is left out") for note in notes), notes)


class OfTheObject(Refused):
    """Steps and hooks that are attributes of the object: Lightning calls these, and not those of the class."""

    def test_steps(self):
        module = model(other=lambda self, batch, batch_idx: Base.training_step(self, batch, batch_idx) * 2)()
        module.training_step = module.other
        graphs, _ = verified(module)
        self.assertEqual(graphs["training_step"].step.function, type(module).other)
        module.training_step = functools.partial(module.other)
        self.refused(module, "training_step is an attribute of the Model, and no method of it")

    def test_hooks(self):
        def halves(self):
            self.net.weight.data.mul_(0.5)

        module = model(halves=halves)()
        module.on_train_epoch_end = module.halves
        self.refused(module, f"on_train_epoch_end() at {os.path.basename(__file__)}:{halves.__code__.co_firstlineno} (it calls mul_()")
        module.on_train_epoch_end = lambda: None
        self.refused(module, "on_train_epoch_end is an attribute of the Model")


class Harmless(Refused):
    """Hooks that stay left out, with a note."""

    def notes(self, module, *names):
        _, notes = verified(module)
        for name in names:
            self.assertTrue(any(f"{name}() is left out" in note for note in notes), f"{name}: {notes}")

    def test_what_only_looks(self):
        class Looking(Base):
            def __init__(self):
                super().__init__()
                self.outputs, self.epochs, self.first = [], 0, [parameter.detach().clone() for parameter in self.parameters()]

            def training_step(self, batch, batch_idx):
                loss = super().training_step(batch, batch_idx)
                self.outputs.append(loss.detach())
                return loss

            def validation_step(self, batch, batch_idx):
                self.log("val_loss", super().training_step(batch, batch_idx))

            def on_train_epoch_end(self):
                self.log("mean", torch.stack(self.outputs).mean())
                self.outputs.clear()

            def on_after_backward(self):
                total = 0.0
                for parameter in self.parameters():
                    total += parameter.grad.norm() ** 2
                step = self.global_step
                step += 1
                self.log("norm", total / step)

            def on_train_batch_end(self, outputs, batch, batch_idx):
                count = batch_idx
                count += 1
                moved = [(parameter - first).norm() for parameter, first in zip(self.parameters(), self.first)]
                self.log("moved", sum(moved) / count)

            def on_validation_epoch_end(self):
                self.epochs += 1
                noise = torch.randn(2, 6) + random.random()
                print("epoch", self.epochs, self.net(noise))
                self.logger.experiment.add_text("scores", str(self.net(noise)))

        module = Looking()
        state = random.getstate(), torch.get_rng_state()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.notes(module, "on_train_epoch_end", "on_after_backward", "on_train_batch_end", "on_validation_epoch_end")
        self.assertEqual((module.outputs, module.epochs), ([], 0))
        self.assertEqual(state[0], random.getstate())
        self.assertTrue(torch.equal(state[1], torch.get_rng_state()))
        self.assertTrue(all(parameter.grad is None for parameter in module.parameters()))
        self.assertEqual(printed.getvalue(), "")

    def test_what_cannot_be_run(self):
        """A hook that needs a Trainer, writes a file, or takes too long is judged by its source."""
        with tempfile.TemporaryDirectory() as folder:
            def saves(self):
                torch.save(self.state_dict(), os.path.join(folder, "weights.pt"))

            def writes(self):
                with open(os.path.join(folder, "scores.txt"), "w") as file:
                    file.write("1")

            def asks(self):
                self.trainer.datamodule.dataset.plot(self.trainer.callback_metrics["val_loss"] + 1)

            def waits(self):
                while True:
                    time.time()

            for hook in (saves, writes, asks):
                with self.subTest(hook=hook.__name__):
                    self.notes(model(on_validation_epoch_end=hook, validation_step=evaluates)(), "on_validation_epoch_end")
            with unittest.mock.patch("levin_train.hook_trials._SECONDS", 0.05):
                self.notes(model(on_validation_epoch_end=waits, validation_step=evaluates)(), "on_validation_epoch_end")
            self.assertEqual(os.listdir(folder), [])

    def test_modules_that_cannot_be_copied(self):
        def logs(self):
            self.log("norm", self.net.weight.norm())

        module = model(on_train_epoch_end=logs)()
        module.file = open(os.devnull)
        try:
            self.notes(module, "on_train_epoch_end")
        finally:
            module.file.close()


if __name__ == "__main__":
    unittest.main()
