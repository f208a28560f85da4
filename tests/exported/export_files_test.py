"""Tests of the YAML that levin_train.export() writes, and of the way back by levin_train.load(): python tests/exported/export_files_test.py"""

import enum
import functools
import importlib.util
import inspect
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import typing
import unittest
import unittest.mock
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))

import lightning  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402

import levin_train  # noqa: E402
from levin_train import configuration, exporting, processors, safetensors, torch_patches  # noqa: E402
from levin_train.hyper_parameters import hyper_parameters  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = torch.randn(8, 6)


class Kind(enum.Enum):
    WIDE = "wide"


class Base(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 3)


def optimizer_of(module):
    """With two groups of different rates."""
    return torch.optim.SGD([{"params": [module.net.weight]}, {"params": [module.net.bias], "lr": 0.3}], lr=0.1, momentum=0.9)


def after(make):
    """An optimizer whose schedule has been made."""
    make(optimizer := optimizer_of(Base()))
    return optimizer


def stepped(make, steps=40):
    """The rates of the groups at each step, as torch's schedule sets them."""
    scheduler = make(optimizer := optimizer_of(Base()))
    rates = [[group["lr"] for group in optimizer.param_groups]]
    for _ in range(steps):
        optimizer.step()
        scheduler.step(*([1.0] if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) else []))
        rates.append([group["lr"] for group in optimizer.param_groups])
    return rates


def value_of(text, step):
    """levin's expression, which is Python's too."""
    return eval(text, {"epoch": step, "cos": math.cos, "exp": math.exp, "sqrt": math.sqrt, "pi": math.pi})


class Configuration(unittest.TestCase):
    def sections(self, configure):
        return configuration.sections(type("Model", (Base,), {"configure_optimizers": configure, "__module__": __name__})())

    def test_optimizers(self):
        for name, options in {"SGD": {"momentum": 0.9, "nesterov": True}, "Adam": {"betas": [0.8, 0.99]}, "AdamW": {"weight_decay": 0.1},
                              "Adagrad": {"lr_decay": 0.1}, "RMSprop": {"centered": True}, "LBFGS": {"max_iter": 5, "max_eval": 9}, "NAdam": {"momentum_decay": 0.01},
                              "RAdam": {"eps": 1e-6}, "Adamax": {"eps": 1e-6}, "Adadelta": {"rho": 0.8}, "Adafactor": {"d": 2.0}, "ASGD": {"alpha": 0.5},
                              "Rprop": {"etas": [0.4, 1.3]}, "SparseAdam": {"eps": 1e-6}}.items():
            with self.subTest(name):
                given = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
                found = self.sections(lambda self, name=name, given=given: getattr(torch.optim, name)(self.parameters(), lr=0.05, **given))
                self.assertEqual(found, {"optimizer": {"class_path": name, "init_args": {"lr": 0.05, **options}}})

    def test_schedules(self):
        schedules = torch.optim.lr_scheduler
        for name, arguments in {"StepLR": {"step_size": 3, "gamma": 0.5}, "MultiStepLR": {"milestones": [2, 4]}, "ExponentialLR": {"gamma": 0.9},
                                "ConstantLR": {"factor": 0.5}, "LinearLR": {"total_iters": 3}, "PolynomialLR": {"power": 2.0},
                                "CosineAnnealingLR": {"T_max": 7}, "CosineAnnealingWarmRestarts": {"T_0": 5}, "OneCycleLR": {"max_lr": 0.1, "total_steps": 50},
                                "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1, "cycle_momentum": False}, "ReduceLROnPlateau": {"patience": 2}}.items():
            with self.subTest(name):
                def configure(self, name=name, arguments=arguments):
                    optimizer = torch.optim.Adam(self.parameters(), lr=0.05)
                    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": getattr(schedules, name)(optimizer, **arguments), "interval": "step",
                                                                     "monitor": "val_loss", "strict": False, "name": "rate"}}

                found = self.sections(configure)
                self.assertEqual(found["lr_scheduler"], {"class_path": name, "init_args": arguments, "interval": "step", "monitor": "val_loss",
                                                         "strict": False, "name": "rate"})
                if name not in ("OneCycleLR", "CyclicLR"):  # they set the rate themselves
                    self.assertEqual(found["optimizer"]["init_args"]["lr"], 0.05)

    def test_monitor_beside_the_schedule(self):
        """As Lightning reads it, and a list of one map as the map."""
        def configured(monitor, *, listed=False, mapped=False):
            def configure(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
                found = {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau} if mapped else plateau, **monitor}
                return [found] if listed else found

            return configure

        wanted = {"class_path": "ReduceLROnPlateau", "init_args": {"patience": 2}, "monitor": "val_loss"}
        self.assertEqual(self.sections(configured({"monitor": "val_loss"}))["lr_scheduler"], wanted)
        self.assertEqual(self.sections(configured({"monitor": "val_loss"}, listed=True))["lr_scheduler"], wanted)
        for configure in (configured({}), configured({"monitor": "val_loss"}, mapped=True)):
            with self.assertRaisesRegex(levin_train.ExportError, r"^export_files_test.py:\d+: ReduceLROnPlateau has no monitor"):
                self.sections(configure)

    def test_schedule_of_averaged_weights(self):
        found = self.scheduled(lambda self, optimizer: torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=3))
        self.assertEqual(found, {"class_path": "SWALR", "init_args": {"swa_lr": 0.05, "anneal_epochs": 3}})

    def scheduled(self, make, interval="epoch", **options):
        def configure(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": make(self, optimizer), "interval": interval}}

        module = type("Model", (Base,), {"configure_optimizers": configure, "__module__": __name__})()
        return configuration.sections(module, options.get("trainer"))["lr_scheduler"]

    def test_length_of_training_is_left_to_levin(self):
        schedules = torch.optim.lr_scheduler
        found = self.scheduled(lambda self, optimizer: schedules.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs))
        self.assertEqual(found, {"class_path": "CosineAnnealingLR", "init_args": {}})
        found = self.scheduled(lambda self, optimizer: schedules.OneCycleLR(optimizer, 0.2, total_steps=self.trainer.estimated_stepping_batches), "step")
        self.assertEqual(found, {"class_path": "OneCycleLR", "init_args": {"max_lr": 0.2}, "interval": "step"})

    def test_length_of_training_that_levin_cannot_put_in(self):
        schedules = torch.optim.lr_scheduler
        for interval, make, name in (
                ("step", lambda self, optimizer: schedules.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs), "max_epochs"),
                ("epoch", lambda self, optimizer: schedules.StepLR(optimizer, self.trainer.max_epochs), "max_epochs"),
                ("epoch", lambda self, optimizer: schedules.MultiStepLR(optimizer, [3, self.trainer.max_epochs]), "max_epochs"),
                ("epoch", lambda self, optimizer: schedules.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs - 1), "max_epochs"),
                ("step", lambda self, optimizer: schedules.LinearLR(optimizer, total_iters=int(0.1 * self.trainer.max_steps)), "max_steps"),
                ("step", lambda self, optimizer: schedules.StepLR(optimizer, 5, gamma=0.5 ** (1.0 / float(self.trainer.max_steps))), "max_steps")):
            with self.assertRaises(levin_train.ExportError) as raised:
                self.scheduled(make, interval)
            self.assertIn(f'trainer={{"{name}": …}}', str(raised.exception))
            self.assertIn("export_files_test.py:", str(raised.exception))
            self.scheduled(make, interval, trainer={name: 50})
        found = self.scheduled(lambda self, optimizer: schedules.CosineAnnealingLR(optimizer, T_max=self.trainer.max_epochs - 1), trainer={"max_epochs": 20})
        self.assertEqual(found["init_args"], {"T_max": 19})

    def test_functions_of_a_schedule(self):
        """A function of Python becomes an expression of levin, with the same values; parts of a function one for each."""
        def warmed(step, steps):
            if step < steps:
                return float(step) / float(max(1, steps))
            return max(0.0, 0.5 * (1.0 + math.cos(math.pi * (float(step) - steps) / 90)))

        class Stairs:
            def __call__(self, epoch):
                return 0.1 ** sum(epoch >= milestone for milestone in (3, 7))

        lambda_lr = torch.optim.lr_scheduler.LambdaLR
        for function, wanted in ((lambda epoch: 0.95**epoch, "0.95 ** epoch"), (lambda epoch: min(1.0, (epoch + 1) / 100), "min(1.0, ((epoch + 1.0) / 100.0))"),
                                 (lambda epoch: 0.5 * (1 + numpy.cos(numpy.pi * epoch / 50)), "0.5 * (1.0 + cos(((3.141592653589793 * epoch) / 50.0)))"),
                                 (lambda epoch: 1.0 if epoch < 5 else 0.1, "1.0 * min(1, max(0, 5 - epoch)) + 0.1 * min(1, max(0, epoch - 4))"),
                                 (lambda epoch: 0.5 ** int(epoch / 3), "0.5 ** ((epoch / 3.0) // 1)"), (functools.partial(warmed, steps=10), None), (Stairs(), None)):
            found = self.scheduled(lambda self, optimizer: lambda_lr(optimizer, function))
            text = found["init_args"]["lr_lambda"]
            if wanted:
                self.assertEqual(text, wanted)
            for step in range(200):
                value = eval(text, {"epoch": step, "cos": math.cos})
                self.assertAlmostEqual(value, float(function(step)), places=12, msg=f"{text} at {step}")
        found = self.scheduled(lambda self, optimizer: lambda_lr(optimizer, lambda step: step / self.trainer.max_epochs), trainer={"max_epochs": 20})
        self.assertEqual(found["init_args"], {"lr_lambda": "epoch / 20.0"})
        with self.assertRaisesRegex(levin_train.ExportError, 'trainer={"max_epochs": …}'):
            self.scheduled(lambda self, optimizer: lambda_lr(optimizer, lambda step: step / self.trainer.max_epochs))

    def test_functions_that_end(self):
        """Of a function that gives no number beyond a step, levin holds the last. A note says so where the run is not known to end before."""
        lambda_lr = torch.optim.lr_scheduler.LambdaLR
        for function, last in ((lambda epoch: (1 - epoch / 16) ** 0.9, 16), (lambda epoch: numpy.power(1 - epoch / 700, 0.9), 700),
                               (lambda epoch: epoch / 4 if epoch < 4 else (1 - (epoch - 4) / 20) ** 0.9, 24), (lambda epoch: 1.5 ** epoch, 1750)):
            def configure(self, function=function):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                return [optimizer], [lambda_lr(optimizer, function)]

            module, notes = type("Model", (Base,), {"configure_optimizers": configure, "__module__": __name__})(), []
            text = configuration.sections(module, None, notes)["lr_scheduler"]["init_args"]["lr_lambda"]
            rates = stepped(lambda optimizer: lambda_lr(optimizer, function), steps=last)
            self.assert_rates(rates, stepped(lambda optimizer: lambda_lr(optimizer, lambda step: value_of(text, step)), steps=last))
            self.assertEqual(value_of(text, last + 1), value_of(text, last))
            self.assertEqual(len(notes), 1)
            self.assertRegex(notes[0], rf"^export_files_test.py:\d+: the LambdaLR gives no rate from epoch {last + 1} on, and levin holds that of epoch {last}$")
            for epochs, noted in ((last + 1, 0), (last + 2, 1)):
                configuration.sections(module, {"max_epochs": epochs}, found := [])
                self.assertEqual(len(found), noted)

    def assert_rates(self, wanted, found):
        for step, (theirs, ours) in enumerate(zip(wanted, found, strict=True)):
            for rate, of_levin in zip(theirs, ours, strict=True):
                self.assertAlmostEqual(rate, of_levin, delta=1e-9 * abs(rate) + 1e-15, msg=f"at step {step}")

    def test_schedules_made_before_the_export(self):
        """Their options are read back, and a schedule of them has the same rates."""
        schedules = torch.optim.lr_scheduler
        half, plain = lambda epoch: 0.5**epoch, lambda epoch: 1 / (1 + epoch)  # noqa: E731
        for name, arguments in (("StepLR", {"step_size": 3, "gamma": 0.5}), ("MultiStepLR", {"milestones": [2, 4, 4]}), ("ExponentialLR", {"gamma": 0.9}),
                                ("ConstantLR", {"factor": 0.5}), ("LinearLR", {"total_iters": 3}), ("PolynomialLR", {"power": 2.0}),
                                ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.001}), ("CosineAnnealingWarmRestarts", {"T_0": 5, "T_mult": 2}),
                                ("OneCycleLR", {"max_lr": [0.1, 0.2], "total_steps": 57, "pct_start": 0.1, "div_factor": 7.0, "three_phase": True}),
                                ("OneCycleLR", {"max_lr": 0.1, "total_steps": 50, "final_div_factor": 300.0, "anneal_strategy": "linear", "max_momentum": 0.99}),
                                ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 7, "step_size_down": 3, "mode": "exp_range", "gamma": 0.99}),
                                ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 6, "step_size_down": 6, "cycle_momentum": False}),
                                ("SWALR", {"swa_lr": 0.05, "anneal_strategy": "linear"}), ("LambdaLR", {"lr_lambda": [half, plain]}),
                                ("MultiplicativeLR", {"lr_lambda": half}), ("ReduceLROnPlateau", {"factor": 0.5, "patience": 2, "min_lr": [0.01, 0.02]})):
            kind = torch_patches.scheduler_class(name)
            with self.subTest(name):
                found = self.made_before(lambda optimizer: kind(optimizer, **arguments))
                self.assertEqual(found["lr_scheduler"]["class_path"], name)
                first = found["optimizer"]["init_args"]["lr"]
                self.assertEqual([first, found["optimizer"]["groups"][0].get("lr", first)],
                                 [group.get("initial_lr", group["lr"]) for group in after(lambda optimizer: kind(optimizer, **arguments)).param_groups])
                options = {key: value for key, value in found["lr_scheduler"]["init_args"].items() if key != "lr_lambda"}
                self.assertEqual(options, {key: value for key, value in arguments.items() if key != "lr_lambda"})
                functions = {"lr_lambda": arguments["lr_lambda"]} if "lr_lambda" in arguments else {}
                self.assert_rates(stepped(lambda optimizer: kind(optimizer, **arguments)), stepped(lambda optimizer: kind(optimizer, **options, **functions)))
        found = self.made_before(lambda optimizer: schedules.SequentialLR(optimizer, [schedules.ConstantLR(optimizer, 0.5), schedules.ChainedScheduler(
            [schedules.StepLR(optimizer, 3), schedules.ExponentialLR(optimizer, 0.9)])], [2]))["lr_scheduler"]
        self.assertEqual(found["init_args"]["milestones"], [2])
        self.assertEqual(found["init_args"]["schedulers"][1]["init_args"]["schedulers"][0], {"class_path": "StepLR", "init_args": {"step_size": 3}})

    def made_before(self, make, change=lambda optimizer, scheduler: None):
        """The sections of a module whose optimizer and schedule are made in its constructor, and changed after."""
        class Model(Base):
            def __init__(self):
                super().__init__()
                self.optimizer = optimizer_of(self)
                self.scheduler = make(self.optimizer)
                change(self.optimizer, self.scheduler)

            def configure_optimizers(self):
                return {"optimizer": self.optimizer, "lr_scheduler": {"scheduler": self.scheduler, "monitor": "val_loss"}}

        return configuration.sections(Model())

    def test_schedules_made_before_the_export_that_have_begun(self):
        def step(optimizer, scheduler):
            optimizer.step()
            scheduler.step()

        schedules = torch.optim.lr_scheduler
        in_turn = lambda optimizer: schedules.SequentialLR(optimizer, [schedules.ConstantLR(optimizer, 0.5), schedules.StepLR(optimizer, 3)], [2])  # noqa: E731
        for wanted, make, change in (
                ("the StepLR has taken steps before the run (it is at 1)", lambda optimizer: schedules.StepLR(optimizer, 3), step),
                ("the SequentialLR has taken steps", in_turn, step),
                ("the ReduceLROnPlateau has taken steps", schedules.ReduceLROnPlateau, lambda _, it: it.step(0.5)),
                ("and its ConstantLR has set 0.05", lambda optimizer: schedules.ConstantLR(optimizer, 0.5), lambda it, _: it.param_groups[0].update(lr=0.2))):
            with self.subTest(wanted), self.assertRaises(levin_train.ExportError) as raised:
                self.made_before(make, change)
            self.assertIn(wanted, str(raised.exception))
        begun = lambda optimizer: schedules.StepLR(optimizer, 3, last_epoch=4)  # noqa: E731
        with self.assertRaisesRegex(levin_train.ExportError, r"the StepLR has taken steps before the run \(it is at 5\)"):
            self.scheduled(lambda self, optimizer: [optimizer.param_groups[0].update(initial_lr=0.1), begun(optimizer)][1])

    def test_schedules_of_own_classes(self):
        """One whose rates are a function of the step, or of it and the rate before, is that function."""
        base = torch.optim.lr_scheduler.LRScheduler

        class CosineWarmup(base):  # UvA's
            def __init__(self, optimizer, warmup, steps):
                self.warmup, self.steps = warmup, steps
                super().__init__(optimizer)

            def get_lr(self):
                return [rate * self.factor(self.last_epoch) for rate in self.base_lrs]

            def factor(self, epoch):
                factor = 0.5 * (1 + math.cos(math.pi * epoch / self.steps))
                return factor * float(epoch) / self.warmup if epoch <= self.warmup else factor

        class Noam(base):
            def get_lr(self):
                step = max(1, self._step_count)
                return [512**-0.5 * min(step**-0.5, step * 10**-1.5)] * len(self.base_lrs)

        class Poly(base):
            def get_lr(self):
                return [rate * (1 - self.last_epoch / 30) ** 0.9 for rate in self.base_lrs]

        class Inherited(torch.optim.lr_scheduler.LambdaLR):
            def __init__(self, optimizer, warmup):
                super().__init__(optimizer, lambda step: 1 if step == 0 else min(step**-0.5, step * warmup**-1.5))
                self.warmup = warmup

        class Floor(base):  # that the rates of both groups reach
            def get_lr(self):
                return [max(rate * 0.8**self.last_epoch, 1e-3) for rate in self.base_lrs]

        class Milestones(base):
            def get_lr(self):
                return [group["lr"] * (0.1 if self.last_epoch in (4, 9) else 1) for group in self.optimizer.param_groups]

        class WarmupCosine(base):  # pl_bolts'
            def get_lr(self):
                groups, step = self.optimizer.param_groups, self.last_epoch
                if step == 0:
                    return [1e-4 for _ in groups]
                if step < 10:
                    return [group["lr"] + (rate - 1e-4) / 9 for rate, group in zip(self.base_lrs, groups)]
                if step == 10:
                    return self.base_lrs
                return [(1 + math.cos(math.pi * (step - 10) / 30)) / (1 + math.cos(math.pi * (step - 11) / 30)) * (group["lr"] - 1e-5) + 1e-5 if (step - 41) % 60
                        else group["lr"] + (rate - 1e-5) * (1 - math.cos(math.pi / 30)) / 2 for rate, group in zip(self.base_lrs, groups)]

            def _get_closed_form_lr(self):
                if self.last_epoch < 10:
                    return [1e-4 + self.last_epoch * (rate - 1e-4) / 9 for rate in self.base_lrs]
                return [1e-5 + 0.5 * (rate - 1e-5) * (1 + math.cos(math.pi * (self.last_epoch - 10) / 30)) for rate in self.base_lrs]

        for make in (lambda optimizer: CosineWarmup(optimizer, 5, 50), Noam, Poly, lambda optimizer: Inherited(optimizer, 7), Floor, Milestones, WarmupCosine):
            for found in (self.made_before(make), configuration.sections(type("Model", (Base,), {
                    "configure_optimizers": lambda self, make=make: ([optimizer := optimizer_of(self)], [make(optimizer)]), "__module__": __name__})())):
                name, texts = found["lr_scheduler"]["class_path"], found["lr_scheduler"]["init_args"]["lr_lambda"]
                texts = texts if isinstance(texts, list) else [texts] * 2
                self.assertEqual([found["optimizer"]["init_args"]["lr"], found["optimizer"]["groups"][0]["lr"]], [0.1, 0.3])
                functions = [functools.partial(value_of, text) for text in texts]
                self.assert_rates(stepped(make, 30), stepped(lambda optimizer: getattr(torch.optim.lr_scheduler, name)(optimizer, functions), 30))

    def test_own_classes_that_are_refused(self):
        base = torch.optim.lr_scheduler.LRScheduler

        class Counting(base):
            count = 0

            def get_lr(self):
                self.count += 1
                return [rate / self.count for rate in self.base_lrs]

        class Curved(base):
            def get_lr(self):
                return [group["lr"] ** 1.1 for group in self.optimizer.param_groups]

        class OfModule(base):
            def __init__(self, optimizer):
                self.module = nn.Linear(1, 1)
                super().__init__(optimizer)

            def get_lr(self):
                return self.base_lrs

        class Own:
            def __init__(self, optimizer):
                self.optimizer = optimizer

        class Warmed(torch.optim.lr_scheduler.StepLR):
            def get_lr(self):
                return [rate * min(1, math.log(self.last_epoch + 2)) for rate in self.base_lrs]

        class Decaying(base):
            def get_lr(self):
                self.optimizer.param_groups[1]["weight_decay"] = 0.01 * self.last_epoch
                return self.base_lrs

        for wanted, make in {"it changes more of the optimizer than its rates: weight_decay": Decaying, "an expression: it has more than 12 parts": Counting,
                             "levin has no schedule Curved, and its rates are none that levin can write as an expression: it goes on": Curved,
                             "it has a module, module, on which": OfModule, "levin has no schedule Own. Return a LambdaLR": Own,
                             "an expression: it calls math.log()": lambda optimizer: Warmed(optimizer, 3)}.items():
            with self.subTest(wanted), self.assertRaises(levin_train.ExportError) as raised:
                self.made_before(make)
            self.assertRegex(str(raised.exception), r"^export_files_test.py:\d+: ")
            self.assertIn(wanted, str(raised.exception))
            self.assertIn("Return a LambdaLR", str(raised.exception))

    def test_the_trainers_section(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.pt2"
            for options, wanted in (({}, 'trainer: {"accelerator": "cpu"}'),
                                    ({"precision": "bf16-mixed"}, 'trainer: {"accelerator": "cpu", "precision": "bf16-mixed"}'),
                                    ({"trainer": {"max_epochs": 7, "world_size": 2}}, 'trainer: {"accelerator": "cpu", "max_epochs": 7}')):
                written = pathlib.Path(configuration.write(str(path), {}, **options)).read_text(encoding="utf-8")
                self.assertIn(f"\n{wanted}\n", written)

    def test_groups(self):
        def configure(self):
            return torch.optim.AdamW([{"params": [self.net.weight]}, {"params": [self.net.bias], "weight_decay": 0.0}], lr=0.05)

        self.assertEqual(self.sections(configure)["optimizer"]["groups"], [{"parameters": ["^net\\.bias$"], "weight_decay": 0.0}])

    def test_refusals(self):
        class Own(torch.optim.SGD):
            pass

        class Lion(torch.optim.SGD):
            pass

        def schedule(make):
            def configure(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                return [optimizer], [make(self, optimizer)]

            return configure

        lambda_lr, cosine = torch.optim.lr_scheduler.LambdaLR, torch.optim.lr_scheduler.CosineAnnealingLR
        for wanted, configure in {
            "levin has no optimizer Own": lambda self: Own(self.parameters(), lr=0.1),
            "levin's Lion may compute otherwise": lambda self: Lion(self.parameters(), lr=0.1),
            "gives 2 optimizers": lambda self: [torch.optim.SGD([each], lr=0.1) for each in self.parameters()],
            "no maximize=True": lambda self: torch.optim.AdamW(self.parameters(), maximize=True),
            "leaves out net.bias": lambda self: torch.optim.SGD([self.net.weight], lr=0.1),
            "that the module does not have": lambda self: torch.optim.SGD([*self.parameters(), nn.Parameter(torch.ones(1))], lr=0.1),
            'one with groups: SGD([{"params"': lambda self: [torch.optim.SGD([self.net.weight], lr=0.1), torch.optim.SGD([self.net.bias], lr=0.1)],
            "has one, in Lightning as in levin. Write": lambda self: ({"optimizer": torch.optim.SGD([self.net.weight], lr=0.1)},
                                                                      {"optimizer": torch.optim.Adam([self.net.bias])}),
            "2 schedules for one optimizer": lambda self: ([opt := torch.optim.SGD(self.parameters(), lr=0.1)],
                                                           [torch.optim.lr_scheduler.StepLR(opt, 1), torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)]),
            "the function of LambdaLR is none that levin can write as an expression: it calls math.log()":
                schedule(lambda self, optimizer: lambda_lr(optimizer, lambda epoch: 1 / math.log(epoch + 3))),
            "computes with self.trainer.max_epochs": schedule(lambda self, optimizer: cosine(optimizer, self.trainer.max_epochs // 2)),
        }.items():
            with self.subTest(wanted):
                with self.assertRaises(levin_train.ExportError) as raised:
                    self.sections(configure)
                self.assertIn(wanted, str(raised.exception))
                self.assertIn("export_files_test.py:", str(raised.exception))


    def test_what_has_begun_or_is_changed(self):
        """levin makes the optimizer and its schedule anew."""
        schedules = torch.optim.lr_scheduler

        def changed(change, make=lambda optimizer: schedules.ExponentialLR(optimizer, 0.5), kind=torch.optim.SGD):
            def configure(self):
                optimizer = kind(self.parameters(), lr=0.5)
                scheduler = make(optimizer)
                change(optimizer, scheduler)
                return [optimizer], [scheduler]

            return configure

        def stepped(optimizer, scheduler):
            for _ in range(3):
                optimizer.step()
                scheduler.step()

        def with_state(optimizer, _):
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad = torch.ones_like(parameter)
            optimizer.step()

        def clipping(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
            step = optimizer.step
            optimizer.step = lambda closure=None: step(closure)
            return optimizer

        in_turn = lambda optimizer: schedules.SequentialLR(optimizer, [schedules.ConstantLR(optimizer, 0.5), schedules.StepLR(optimizer, 3)], [2])  # noqa: E731
        for wanted, configure in {
            "the ExponentialLR has taken steps before the run (it is at 3)": changed(stepped),
            "the SequentialLR has taken steps": changed(stepped, in_turn),
            "gamma of the ExponentialLR has been changed": changed(lambda _, scheduler: setattr(scheduler, "gamma", 0.1)),
            "gamma of the StepLR has been changed": changed(lambda _, scheduler: setattr(scheduler._schedulers[1], "gamma", 0.3), in_turn),
            "the optimizer has lr=0.2, and its ExponentialLR has set 0.5": changed(lambda optimizer, _: optimizer.param_groups[0].update(lr=0.2)),
            "the Adam has taken steps": changed(with_state, kind=torch.optim.Adam),
            "the Adagrad has taken steps": changed(with_state, kind=torch.optim.Adagrad),
            "step() of the SGD is another": clipping,
        }.items():
            with self.subTest(wanted):
                with self.assertRaises(levin_train.ExportError) as raised:
                    self.sections(configure)
                self.assertRegex(str(raised.exception), r"^export_files_test.py:\d+: ")
                self.assertIn(wanted, str(raised.exception))
        for make in (in_turn, lambda optimizer: schedules.ChainedScheduler([schedules.ConstantLR(optimizer, 0.5), schedules.StepLR(optimizer, 3)]),
                     lambda optimizer: schedules.OneCycleLR(optimizer, 0.1, total_steps=9, cycle_momentum=False)):
            self.sections(changed(lambda *_: None, make, torch.optim.Adagrad))

    def test_a_rate_that_no_schedule_of_the_run_has_set(self):
        def configure(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
            torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5)
            return optimizer

        self.assertEqual(self.sections(configure)["optimizer"]["init_args"]["lr"], 0.25)

    def test_numbers_that_json_lacks(self):
        text = configuration.yaml_text({"optimizer": {"init_args": {"lr": float("inf"), "betas": (0.9, float("-inf")), "on": True}}})
        self.assertEqual(text, 'optimizer:\n  init_args: {"lr": .inf, "betas": [0.9, -.inf], "on": true}')


class Processors(unittest.TestCase):
    """On which processors a package runs: in words, and what makes it run on more."""

    def test_sets_of_instructions(self):
        wide, narrow = processors.features_of("x86-64-v3"), processors.features_of("x86-64-v2")
        widest = [*wide, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]
        for processor, features, where, more in (
                ("native", [*widest, "amx_tile"], "processors with AVX-512, and with amx_tile, as this machine's", ("x86-64-v3", "x86-64-v2")),
                ("native", [*wide, "vaes", "avx512f"], "processors with AVX2, and with avx512f, vaes, as this machine's", ("x86-64-v3", "x86-64-v2")),
                ("native", wide, "processors with AVX2, as this machine's", ("x86-64-v2",)),
                ("native", narrow, "processors with SSE4.2, as this machine's", ()),
                ("native", ["asimd"], " processors with asimd", ()),
                ("x86-64-v3", wide, "processors with AVX2: most of Intel's since 2013 and of AMD's since 2015", ()),
                ("x86-64-v2", narrow, "processors with SSE4.2: Intel's since 2008 and AMD's since 2011", ())):
            with self.subTest(where):
                self.assertTrue(processors.runs_on(processor, features).endswith(where), processors.runs_on(processor, features))
                self.assertEqual([level for level in processors.PROCESSORS if f'processor="{level}"' in processors.advice(processor, features)], sorted(more))

    def test_the_yaml_says_it(self):
        with tempfile.TemporaryDirectory() as folder:
            written = pathlib.Path(configuration.write(os.path.join(folder, "m.pt2"), {}, runs_on="it runs on processors with AVX2")).read_text()
        self.assertIn("\n# m.pt2: it runs on processors with AVX2\nmodel:", written)

    def test_sets_of_instructions_are_tried_out_once(self):
        """And again where what was stored is damaged, or names what this torch does not know."""
        from torch._inductor.cpu_vec_isa import supported_vec_isa_list
        tried = []

        def find():
            tried.append(1)
            return supported_vec_isa_list[2:4]

        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder):
            for content, count in ((None, 1), (None, 1), ("[", 2), ('["avx8"]', 3)):
                for file in pathlib.Path(folder).glob("levin_vectors_*.json") if content else ():
                    file.write_text(content, encoding="utf-8")
                self.assertEqual(processors.vector_sets.__wrapped__(find), supported_vec_isa_list[2:4])
                self.assertEqual(len(tried), count)

    def test_wrappers_read_their_device_without_a_regular_expression(self):
        """A torch whose header is another would be compiled as it is, in twice the time."""
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder):
            made = pathlib.Path(torch_patches._light_headers.__wrapped__()) / torch_patches._MODEL_HEADER
            text = made.read_text(encoding="utf-8")
        self.assertNotIn("std::regex", text)
        self.assertIn("aoti_torch_device_type_cpu()", text)


class Types(unittest.TestCase):
    """Type checkers of a user's file know the functions and their options."""

    def test_all_options_have_types(self):
        for function in (levin_train.export, levin_train.export_function, levin_train.load):
            known = inspect.signature(function).parameters
            self.assertEqual(set(typing.get_type_hints(function)), {*known, "return"}, function.__name__)

    def test_values_are_those_that_are_taken(self):
        self.assertEqual(set(typing.get_args(exporting.Processor)), {"native", *processors.PROCESSORS})
        self.assertEqual(set(typing.get_args(exporting.Precision)), set(exporting.PRECISIONS))

    @unittest.skipUnless(importlib.util.find_spec("mypy"), "there is no mypy")
    def test_strict_files_of_users(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "right.py").write_text(
                "import levin_train, torch\nfrom levin_train import Export, load\n"
                "net, x = torch.nn.Linear(1, 1), torch.zeros(2, 1)\n"
                "done: Export = levin_train.export(net, x, 'a.pt2', dynamic={'input': {1: 'time'}}, threads='run', processor='x86-64-v3')\n"
                "notes: list[str] = done.notes\nsame: torch.nn.Linear = load(net, 'a.ckpt')\ntensors: dict[str, torch.Tensor] = load('a.ckpt')\n")
            (pathlib.Path(folder) / "wrong.py").write_text(
                "import levin_train, torch\nnet, x = torch.nn.Linear(1, 1), torch.zeros(2, 1)\nlevin_train.export(net, x, 'a.pt2', procesor='native')\n"
                "levin_train.export(net, x, 'a.pt2', precision='fp16')\nlevin_train.exprt\n")
            run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "right.py", "wrong.py"], cwd=folder, text=True,
                                 capture_output=True, env={**os.environ, "MYPYPATH": str(ROOT / "python")})
        self.assertEqual([line.split(":")[:2] for line in run.stdout.splitlines() if ": error:" in line], [["wrong.py", str(line)] for line in (3, 4, 5)],
                         run.stdout + run.stderr)


class TorchPatches(unittest.TestCase):
    def test_another_torch_is_refused(self):
        for version in torch_patches.VERSIONS:
            torch_patches.check_version(version + "+cpu")
        with self.assertRaisesRegex(ImportError, f"needs torch {torch_patches.VERSIONS[0]}.*, and this is torch 2.99.0"):
            torch_patches.check_version("2.99.0+cpu")
        self.assertIn((ROOT / "cmake" / "torch_version.txt").read_text().strip(), torch_patches.VERSIONS)

    def test_torch_is_as_before(self):
        functional, schedulers = torch.nn.functional, torch.optim.lr_scheduler
        before = functional.multi_head_attention_forward, schedulers.StepLR.__init__
        with self.assertRaises(KeyError), torch_patches.attention(None), torch_patches.scheduler_arguments(["StepLR"]):
            self.assertNotEqual(before, (functional.multi_head_attention_forward, schedulers.StepLR.__init__))
            raise KeyError
        self.assertEqual(before, (functional.multi_head_attention_forward, schedulers.StepLR.__init__))


class HyperParameters(unittest.TestCase):
    def held(self, **hparams):
        module = Base()
        module.save_hyperparameters(hparams)
        return hyper_parameters(module)

    def test_what_is_held(self):
        nan, inf = {"$float": "nan"}, {"$float": "inf"}
        for given, wanted in [(1, 1), (True, True), (None, None), ("a", "a"), (0.5, 0.5), (float("inf"), inf), (-float("inf"), {"$float": "-inf"}),
                              (float("nan"), nan), ((1, (2.5, float("inf"))), [1, [2.5, inf]]), ({"a": {"b": (1,)}, 3: "c"}, {"a": {"b": [1]}, "3": "c"}),
                              ({"$float": "x"}, {"$$float": "x"}), (torch.tensor(2.5), 2.5), (pathlib.Path("a/b"), "a/b"), (Kind.WIDE, "wide"),
                              (torch.float16, "torch.float16"), ([], []), ({}, {})]:
            with self.subTest(given=given):
                held, notes = self.held(value=given)
                self.assertEqual((held, notes), ({"value": wanted}, []))
                self.assertIs(type(held["value"]), type(wanted))
                json.dumps(held, allow_nan=False)

    def test_what_is_not_is_named(self):
        endless = []
        endless.append(endless)
        for wanted, given in {"value is of torch.nn.modules.linear.Linear": nn.Linear(1, 1), "value[1] is of": [1, object()],
                              "value['a'][0] is of": {"a": [print]}, "value has the key (1, 2)": {(1, 2): 3}, "of more than 64 bits": 2**64,
                              "value is a text that UTF-8": "\ud800", "in one another": endless, "value is of torch.Tensor": torch.ones(2)}.items():
            with self.subTest(wanted):
                held, notes = self.held(value=given, kept=1)
                self.assertEqual((held, len(notes)), ({"kept": 1}, 1))
                self.assertIn(wanted, notes[0])
                self.assertIn('save_hyperparameters(ignore=["value"])', notes[0])

    def test_the_note_comes_with_the_export(self):
        module = Base()
        module.save_hyperparameters({"layers": [nn.ReLU()], "width": (3, 4)})
        with unittest.mock.patch.object(exporting, "record", side_effect=KeyboardInterrupt):
            notes = []
            step = unittest.mock.Mock(layout=unittest.mock.Mock(notes=[]))
            with self.assertRaises(KeyboardInterrupt):
                exporting._write_package(module, [step], (), "x.pt2", ("native", None), (), notes)
        self.assertIn("layers[0] is of torch.nn.modules.activation.ReLU", notes[0])


class Loading(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def written(self, tensors, name="last.ckpt"):
        path = pathlib.Path(self.folder.name) / name
        path.write_bytes(safetensors.to_bytes(tensors))
        return path

    def module(self):
        module = Base()
        module.head = nn.Linear(6, 3)
        module.head.weight = module.net.weight
        module.register_buffer("seen", torch.zeros(()), persistent=False)
        return module

    def test_round_trip(self):
        trained, fresh = self.module(), self.module()
        state = {f"state_dict.{name}": tensor for name, tensor in trained.state_dict().items()}
        for tensors in ({**state, "state_dict.seen": torch.ones(()), "rng.seed": torch.ones(1)}, dict(trained.state_dict()),
                        {name: tensor for name, tensor in state.items() if name != "state_dict.head.weight"}):
            self.assertIs(levin_train.load(fresh, self.written(tensors)), fresh)
            self.assertTrue(torch.equal(fresh.net(BATCH), trained.net(BATCH)))
            self.assertIs(fresh.head.weight, fresh.net.weight)
            self.assertEqual(float(fresh.seen), 0)

    def test_types(self):
        tensors = {str(dtype): torch.arange(6).reshape(2, 3).to(dtype) for dtype in safetensors.NAMES}
        tensors["empty"] = torch.empty(0, 4)
        found, _ = safetensors.from_file(self.written(tensors))
        self.assertTrue(all(torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in tensors.items()))

    def test_errors(self):
        state = {f"state_dict.{name}": tensor for name, tensor in self.module().state_dict().items()}
        whole = self.written(state).read_bytes()
        cut = pathlib.Path(self.folder.name) / "cut.ckpt"
        torch.save({"a": torch.ones(2)}, cut.with_name("torch.pt"))
        cases = {"missing: net.bias": self.written({key: value for key, value in state.items() if key != "state_dict.net.bias"}, "a"),
                 "not in the module: more": self.written({**state, "state_dict.more": torch.ones(1)}, "b"),
                 "net.bias [4] instead of [3]": self.written({**state, "state_dict.net.bias": torch.ones(4)}, "c"),
                 "cannot be read: No such file": cut.with_name("none"), "torch.load()": cut.with_name("torch.pt")}
        for wanted, path in cases.items():
            with self.subTest(wanted):
                with self.assertRaises(levin_train.LoadError) as raised:
                    levin_train.load(self.module(), path)
                self.assertIn(wanted, str(raised.exception))
                self.assertIn(str(path), str(raised.exception))
        for length in (0, 5, 8, 50, len(whole) - 1):
            cut.write_bytes(whole[:length])
            with self.subTest(length), self.assertRaises(levin_train.LoadError):
                levin_train.load(self.module(), cut)
        levin_train.load(self.module(), cases["missing: net.bias"], strict=False)
        with self.assertRaisesRegex(levin_train.LoadError, "none of the weights of Base: head.bias, .*It has other"):
            levin_train.load(self.module(), self.written({"other": torch.ones(3)}, "other"), strict=False)

    def test_damaged_checkpoints(self):
        tensors, manifest = {"state_dict.weight": torch.arange(4.0)}, '{"note": "ü"}'
        data = tensors["state_dict.weight"].numpy().tobytes()
        whole = {"levin_manifest": manifest, "levin_manifest_crc32": str(zlib.crc32(manifest.encode())), "levin_data_crc32": str(zlib.crc32(data))}
        path = pathlib.Path(self.folder.name) / "last.ckpt"
        path.write_bytes(content := safetensors.to_bytes(tensors, whole))
        self.assertEqual(levin_train.load(path)["weight"].tolist(), [0, 1, 2, 3])
        path.write_bytes(safetensors.to_bytes(tensors, {"format": "pt"}))
        self.assertEqual(levin_train.load(path)["weight"].tolist(), [0, 1, 2, 3])
        for what, damaged in {"tensor data": content[:-2] + bytes([content[-2] ^ 1]) + content[-1:], "manifest": content.replace(b"note", b"nite"),
                              "data": safetensors.to_bytes(tensors, {key: text for key, text in whole.items() if key != "levin_data_crc32"})}.items():
            path.write_bytes(damaged)
            with self.subTest(what), self.assertRaisesRegex(levin_train.LoadError, f"last.ckpt' cannot be loaded: its checksum shows .*{what} is damaged"):
                levin_train.load(path)

    def test_folders_say_what_to_load(self):
        run = pathlib.Path(self.folder.name) / "version_0"
        (run / "checkpoints").mkdir(parents=True)
        with self.assertRaisesRegex(levin_train.LoadError, "version_0' is a folder. It has no checkpoints"):
            levin_train.load(run)
        for age, name in enumerate(("last.ckpt", "epoch=1.ckpt")):
            path = self.written({"a": torch.ones(1)}, f"version_0/checkpoints/{name}")
            os.utime(path, (1000 - age, 1000 - age))
        torch.save({}, run / "checkpoints/last.lightning.ckpt")
        for folder in (run, run / "checkpoints"):
            with self.assertRaisesRegex(levin_train.LoadError, "Name its checkpoint: '.*version_0/checkpoints/last.ckpt'"):
                levin_train.load(folder)
        (run.parent / "model.safetensors.index.json").write_text("{}")
        with self.assertRaisesRegex(levin_train.LoadError, "levin export .* --to safetensors"):
            levin_train.load(run.parent)


class RunMetrics(unittest.TestCase):
    def test_columns_of_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "version_0"
            run.mkdir()
            (run / "metrics.csv").write_text('epoch,step,"a,b",train_loss\n0,9,,0.5\n0,19,inf,NaN\n1,29,2.0,')
            for path in (run, run / "metrics.csv"):
                found = levin_train.metrics(path)
                self.assertEqual(str(found), "{'epoch': [0, 0], 'step': [9, 19], 'a,b': [nan, inf], 'train_loss': [0.5, nan]}")
            self.assertEqual(found.values_of("a,b"), [(19, float("inf"))])
            with self.assertRaisesRegex(KeyError, "'val_loss' was not logged. There is epoch, step, a,b, train_loss"):
                found.values_of("val_loss")
            with self.assertRaisesRegex(FileNotFoundError, "Runs in it: version_0"):
                levin_train.metrics(folder)
            (run / "metrics.csv").write_text("")
            self.assertEqual(levin_train.metrics(run), {})


if __name__ == "__main__":
    unittest.main()
