"""Runs the hooks that are to be left out, on a copy of the module that trains two steps, and looks at what they change: what their source does not
show. A hook that needs more than is there, such as a real Trainer, a logger or a file, raises: what it changed before counts, and else its source, of
which everything must be known then."""

import contextlib
import copy
import inspect
import io
import math
import random
import sys
import time
import types
import unittest.mock
import warnings

import torch
from torch.utils import _pytree as pytree

from levin_train import configuration, hook_defaults, hooks, metric_objects, side_effects, users_code
from levin_train.errors import ExportError, refuse
from levin_train.stand_ins import Logger, call_step
from levin_train.watching import State, preserved, preserved_globals, print_of_tensor

_ROUNDS = (0, 100)  # numbers of the batch, the step and the epoch: a hook may do something each hundredth time
_SECONDS = 10  # for one hook
_OF_THE_BATCH = ("on_train_batch_start", "on_validation_batch_start", "on_before_backward")  # what they are given is computed with afterwards


class _TooLong(BaseException):
    """A hook that takes long, which an `except Exception` of the user's does not catch."""


def changes(module, names, batch, trainer, without):
    """What these hooks change, in words, by name; None for those that are how a step is made and do as Lightning's do. And why
    some could not run, by name. `batch`: as export() got it; `trainer`: values of self.trainer; `without`: hooks that do not run. The module stays
    as it is."""
    found, failed, step = {}, {}, hooks.own(module, "training_step")
    if not names:
        return found, failed
    with _apart(module, step):
        try:
            _Trial(module, step, names, batch, trainer, without, found, failed).run()
        except Exception as error:  # of a module or a batch that cannot be copied
            failed |= dict.fromkeys([name for name in names if name not in found], _words(error))
    return found, failed


def _words(error):
    text = str(error).strip().split("\n")[0].rstrip(".")
    return text[:200] if isinstance(error, ExportError) else f"{type(error).__name__}: {text[:200]}"


@contextlib.contextmanager
def _apart(module, step):
    """Whatever runs in it leaves no trace: in the module itself, globals, random numbers, on the screen and in files."""
    def no_file(*_, **__):
        raise OSError("no hook writes a file during an export")

    kept = [(tensor, _print_of(tensor), tensor.detach().clone(), tensor.requires_grad, tensor.grad) for tensor in [*module.parameters(), *module.buffers()]]
    modes = {part: part.training for part in module.modules()}
    states = random.getstate(), sys.modules["numpy"].random.get_state() if "numpy" in sys.modules else None
    with contextlib.ExitStack() as stack:
        stack.enter_context(preserved(module))
        stack.enter_context(preserved_globals(module, step))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(warnings.catch_warnings())
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(contextlib.redirect_stderr(io.StringIO()))
        stack.enter_context(side_effects.watched(lambda note: None))
        stack.enter_context(unittest.mock.patch("torch.save", no_file))
        if "matplotlib.pyplot" in sys.modules:
            stack.enter_context(unittest.mock.patch("matplotlib.pyplot.show", no_file))
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            random.setstate(states[0])
            if states[1] is not None:
                sys.modules["numpy"].random.set_state(states[1])
            for part, mode in modes.items():
                part.training = mode
            for tensor, before, values, requires_grad, gradient in kept:
                if _print_of(tensor) != before:
                    tensor.data = values
                tensor.requires_grad_(requires_grad)
                tensor.grad = gradient


@contextlib.contextmanager
def _limited():
    """Raises _TooLong where the time is over at a call."""
    end, outer = time.monotonic() + _SECONDS, sys.getprofile()

    def look(*_):
        if time.monotonic() > end:
            raise _TooLong

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(outer)


def _print_of(tensor):
    return print_of_tensor(tensor, largest=math.inf)  # a hook writes by way of .data, too


def _facts(module):
    """What training depends on of a module, by its name in messages."""
    found = {}
    for name, tensor in module.named_parameters():
        found |= {f"the parameter {name}": _print_of(tensor), f"requires_grad of {name}": tensor.requires_grad,
                  f"the gradient of {name}": None if tensor.grad is None else _print_of(tensor.grad)}
    for name, part in module.named_modules():
        if not metric_objects.is_metric(part):
            found |= {f"the buffer {f'{name}.{key}'.lstrip('.')}": _print_of(tensor) for key, tensor in part._buffers.items() if tensor is not None}
            found[f"whether {f'self.{name}'.rstrip('.')} is in training mode"] = part.training
    return found


def _facts_of(optimizer, schedule):
    """What an optimizer and its schedule train with."""
    found = {}
    for index, group in enumerate(optimizer.param_groups if optimizer else ()):
        found |= {f"{key} of the optimizer's group {index}": [id(each) for each in value] if key == "params" else repr(value) for key, value in group.items()}
    if optimizer:
        found["the state of the optimizer"] = [_print_of(leaf) for leaf in pytree.tree_leaves(dict(optimizer.state)) if isinstance(leaf, torch.Tensor)]
    return found | {f"{key} of the schedule": value for key, value in vars(schedule or types.SimpleNamespace()).items() if isinstance(value, (int, float))}


class _Trial:
    """A copy of a module that trains, with its hooks, as Lightning calls them."""

    def __init__(self, module, step, names, batch, trainer, without, found, failed):
        self._module, self._step, self._names, self._without, self._found, self._failed = module, step, names, without, found, failed
        self._copy, self._batch = copy.deepcopy(module), copy.deepcopy(batch)
        self._number, self._class, self._trainer = 0, type(module), trainer
        self._optimizer, self._schedule = self._configured()
        self._copy.__class__ = type(self._class)(self._class.__name__, (self._class,), {"__module__": self._class.__module__, **self._members()})

    def _configured(self):
        """Its optimizer and schedule, or None where configure_optimizers() needs more than is there."""
        try:
            return configuration.optimizer_of(self._copy, self._trainer)
        except Exception:
            return None, None

    def _members(self):
        """What hooks and steps find in place of Lightning."""
        log = types.SimpleNamespace(note=lambda text: None, decide_unknown=refuse)
        logger = Logger("self.logger", "", log)
        number = property(lambda _: self._number)
        seen = configuration.Training(self._copy, {"sanity_checking": False, "validating": False, "testing": False, "predicting": False, "logger": logger,
                                                   "loggers": [logger], "optimizers": [self._optimizer], **self._trainer})

        def at_this_step(_):
            vars(seen).update(global_step=self._number, current_epoch=self._number)
            return seen

        def given(what):
            if what is None:
                raise ExportError("configure_optimizers() needs more than is there")
            return what

        return {"log": lambda *_, **__: None, "log_dict": lambda *_, **__: None, "print": lambda *_, **__: None, "all_gather": lambda _, data, **__: data,
                "trainer": property(at_this_step), "global_step": number, "current_epoch": number, "logger": property(lambda _: logger),
                "loggers": property(lambda _: [logger]), "optimizers": lambda *_, **__: given(self._optimizer), "lr_schedulers": lambda _: self._schedule}

    def run(self):
        with users_code.uncompiled(self._copy):
            for name in self._names:
                if name in hooks.OF_TRAINING and self._is_default(name):
                    self._found[name] = None
            self._hook("on_fit_start")
            self._hook("on_train_start")
            for self._number in _ROUNDS:
                self._hook("on_train_epoch_start")
                self._train()
                self._validate()
                self._hook("on_train_epoch_end")

    def _is_default(self, name):
        """Whether a hook does as Lightning's does, and nothing else."""
        before = self._look(name, ())
        try:
            with _limited():
                does = hook_defaults.is_default(name, self._copy, lambda number: setattr(self, "_number", number), copy.deepcopy(self._batch))
        except (Exception, SystemExit, _TooLong):
            return False
        return does and not self._difference(name, before, self._look(name, ()))

    def _train(self):
        batch = copy.deepcopy(self._batch)
        self._hook("on_train_batch_start", batch, self._number)
        outputs = self._called("training_step", batch)
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self._hook("on_before_zero_grad", self._optimizer)
        self._copy.zero_grad()
        self._hook("on_before_backward", loss)
        try:
            loss.reshape(()).backward()
        except Exception:  # of a step that is left out, or fails: its hooks may be tried all the same
            for parameter in self._copy.parameters():
                parameter.grad = torch.full_like(parameter, 0.01) if parameter.requires_grad else None
        self._hook("on_after_backward")
        self._hook("on_before_optimizer_step", self._optimizer)
        self._move()
        detached = pytree.tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, outputs)
        self._hook("on_train_batch_end", detached if isinstance(outputs, dict) else {"loss": detached}, batch, self._number)

    def _move(self):
        """One step of the optimizer: averages of weights and copies of them differ from then on."""
        if self._optimizer is not None:
            with contextlib.suppress(Exception):  # of an optimizer that wants a closure
                return self._optimizer.step()
        with torch.no_grad():
            for parameter in self._copy.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=0.01)

    def _validate(self):
        modes = {part: part.training for part in self._copy.modules()}
        with torch.no_grad():
            with contextlib.suppress(Exception):
                hooks.evaluate(self._copy, "validation_step", self._without)
            for name in ("on_validation_start", "on_validation_epoch_start"):
                self._hook(name)
            batch = copy.deepcopy(self._batch)
            self._hook("on_validation_batch_start", batch, self._number)
            outputs = self._called("validation_step", batch)
            self._hook("on_validation_batch_end", outputs, batch, self._number)
            for name in ("on_validation_epoch_end", "on_validation_end"):
                self._hook(name)
        for part, mode in modes.items():
            part.training = mode

    def _called(self, name, batch):
        """What a step gives; None where it cannot run."""
        function = hooks.own(self._copy, name)
        if function is None or name in self._without:
            return None
        with contextlib.suppress(Exception):
            return call_step(function, self._copy, batch, types.SimpleNamespace(numbers={"batch_idx": self._number, "dataloader_idx": 0}))

    def _hook(self, name, *arguments):
        if name not in self._names or name in self._found:
            return
        hook = getattr(self._copy, name)
        if "dataloader_idx" in inspect.signature(hook).parameters:
            arguments += (0,)
        before, result = self._look(name, arguments), None
        try:
            with _limited():
                result = hook(*arguments)
        except (Exception, SystemExit, _TooLong) as error:
            self._failed.setdefault(name, _words(error))
        what = self._difference(name, before, self._look(name, arguments)) or ("whether the epoch goes on" if result == -1 else "")
        if what:
            self._found[name] = f"(run on the example, it changes {what})"

    def _look(self, name, arguments):
        facts = {**_facts(self._copy), **_facts_of(self._optimizer, self._schedule)}
        given = [_print_of(leaf) if isinstance(leaf, torch.Tensor) else None for leaf in pytree.tree_leaves(arguments)] if name in _OF_THE_BATCH else 0
        return facts, _facts(self._module), {"what it is given": given}, State(self._copy, self._step)

    def _difference(self, name, before, after):
        """The first thing that differs, in words."""
        for one, other in zip(before[:-1], after[:-1]):
            for what in [*one, *other]:
                if one.get(what) != other.get(what):
                    return what
        before, after = before[-1], after[-1]
        for what in before.changed(after):
            made = before.shown(what) in ("None", "nothing")  # as masks are, on demand
            if not made and what not in ("random", "numpy.random") and self._is_read(what, name):
                values = f" from {before.shown(what)} to {after.shown(what)}"
                return f"{what}{values if before.shown(what) != after.shown(what) else ''}, which training may read"
        return ""

    def _is_read(self, what, hook):
        if what.startswith("self."):
            what = what.removeprefix("self.")
            return "." in what or hooks.reads_elsewhere(self._module, what, hook)
        return hooks.reads_elsewhere(self._module, what.split(" of ")[0], hook)
