"""The YAML of a run: the package, and the optimizer and scheduler of configure_optimizers()."""

import copy
import dataclasses
import inspect
import json
import math
import os
import re
import sys
import types

import torch

from levin_train import schedules, torch_patches
from levin_train.errors import ExportError, is_users, line_of, refuse
from levin_train.hooks import own, seeing
from levin_train.python_numbers import Unknown
from levin_train.registered import LR_SCHEDULERS, OPTIMIZERS

# How a step is computed, and not what it is.
_IMPLEMENTATION = {"foreach", "fused", "capturable", "differentiable", "initial_lr", "params", "param_names"}
SCHEDULERS = [name for name in LR_SCHEDULERS if torch_patches.scheduler_class(name)]
_IN_YAML = "export() config=False and write the section in YAML: {}: {{class_path: …, init_args: {{…}}}}"
_IN_CODE, _OR_IN_CODE = "Give " + _IN_YAML, "Or give " + _IN_YAML


# Options of schedules that levin sets to the length of training where they are left out.
_WHOLE = {("CosineAnnealingLR", "T_max"), ("OneCycleLR", "total_steps"), ("PolynomialLR", "total_iters")}
_LENGTHS = {"max_epochs": "epoch", "estimated_stepping_batches": "step", "max_steps": "step", "num_training_batches": "step"}
# Options of levin's Trainer among what a module may read of self.trainer.
_OPTIONS = ("max_epochs", "max_steps", "min_epochs", "min_steps", "accumulate_grad_batches", "gradient_clip_val", "log_every_n_steps",
            "check_val_every_n_epoch", "limit_train_batches", "limit_val_batches")


class _Length(int):
    """A length of training as self.trainer has it. Alone as a scheduler's option it is left out, so that levin puts it in."""

    def __new__(cls, name, value):
        length = super().__new__(cls, value)
        length.name = name
        return length


def _computed(name):
    of_int = getattr(int, name)

    def method(self, *others):
        frame = sys._getframe(1)
        if is_users(frame.f_code.co_filename):
            read = ", ".join(f'"{name}": …' for name in _LENGTHS if name in {self.name, *frame.f_code.co_names})
            refuse(f"{frame.f_code.co_name}() computes with self.trainer.{self.name}, which is known when training begins",
                   f"Give export() trainer={{{read}}}, with which it computes, or config=False and write the section in YAML: "
                   "lr_scheduler: {class_path: …, init_args: {…}}")
        return of_int(self, *others)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(_Length, _method, _computed(_method))
for _method in ("__lt__", "__le__", "__gt__", "__ge__", "__neg__", "__float__", "__int__"):
    setattr(_Length, _method, _computed(_method))


class Training:
    """self.trainer of a module before the steps: in setup(), configure_model() and configure_optimizers(). `given`: values that export() got.
    `length`: what lengths of training are to be, or None where they are not known."""

    def __init__(self, module, given, length=None):
        given = {"training": True, "is_global_zero": True, "model": module, "lightning_module": module, "fit_loop": _fit_loop(module), **given}
        self.__dict__.update(_given=given, _length=length, lengths_read=[])

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._given:
            return self._given[name]
        if name in _LENGTHS and self._length is not None:
            self.lengths_read.append(name)
            return _Length(name, self._length)
        other = "" if self._length is None else ", or write the sections optimizer and lr_scheduler of the YAML, and say config=False"
        return Unknown(f"self.trainer.{name}", f'Give export() trainer={{"{name}": …}}{other}', refuse)


def _fit_loop(module):
    """Of Lightning's loops what gluonts asks for its monitor: whether a run validates, as one does whose module has a validation_step."""
    validates = own(module, "validation_step") is not None
    source = types.SimpleNamespace(is_defined=lambda: validates)
    return types.SimpleNamespace(epoch_loop=types.SimpleNamespace(val_loop=types.SimpleNamespace(_data_source=source)))


def _configured(module):
    with torch_patches.scheduler_arguments(SCHEDULERS):
        configured = module.configure_optimizers()
    where = line_of(type(module).configure_optimizers)
    if isinstance(configured, torch.optim.Optimizer):
        return configured, {}, where
    if isinstance(configured, (tuple, list)) and len(configured) == 1 and isinstance(configured[0], dict):
        configured = configured[0]
    if isinstance(configured, dict):
        scheduler = configured.get("lr_scheduler")
        return configured["optimizer"], scheduler if isinstance(scheduler, dict) else {"scheduler": scheduler, **_monitored(configured, scheduler)}, where
    if isinstance(configured, (tuple, list)) and configured and all(isinstance(part, torch.optim.Optimizer) for part in configured):
        configured = (configured, [])
    if isinstance(configured, (tuple, list)) and len(configured) == 2 and isinstance(configured[0], (tuple, list)) and len(configured[0]) == 1 and len(configured[1]) < 2:
        scheduler = configured[1][0] if configured[1] else None
        return configured[0][0], scheduler if isinstance(scheduler, dict) else {"scheduler": scheduler}, where
    turns = "optimizer_idx" in inspect.signature(type(module).training_step).parameters if hasattr(module, "training_step") else False
    raise ExportError(f"{where}: {_of_several(configured, turns)}")


def _monitored(configured, scheduler):
    """What Lightning reads beside the optimizer, for a schedule without a map of its own."""
    return {"monitor": configured.get("monitor")} if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) else {}


def _of_several(configured, turns):
    """What is said of what configure_optimizers() gives, where it is not one optimizer with one schedule. `turns`: whether the optimizers
    have steps of their own."""
    optimizers, schedules = [], []
    if isinstance(configured, (tuple, list)) and configured:
        parts = configured[0] if isinstance(configured[0], (tuple, list)) else configured
        optimizers = [part["optimizer"] if isinstance(part, dict) else part for part in parts]
        schedules = configured[-1] if isinstance(configured[-1], (tuple, list)) else []
    in_code = "Write configure_optimizers in C++, in a class below levin::ExportedModule, and give export() config=False."
    kinds = {type(optimizer) for optimizer in optimizers}
    if len(optimizers) > 1:
        groups = f"Make them one with groups: {kinds.pop().__name__}([{{\"params\": …, \"lr\": …}}, …]). Or w" if len(kinds) == 1 and not turns else "W"
        return (f"configure_optimizers gives {len(optimizers)} optimizers, and automatic optimization has one, in Lightning as in levin. "
                f"{groups}{in_code[1:]}")
    if len(schedules) > 1:
        return (f"configure_optimizers gives {len(schedules)} schedules for one optimizer, and YAML has one. Make them one: SequentialLR one after "
                f"another, ChainedScheduler at the same time. Or w{in_code[1:]}")
    return f"configure_optimizers gives a {type(configured).__name__}, and YAML has one optimizer, with one schedule. {in_code}"


def _plain(value):
    if isinstance(value, torch.Tensor):
        value = value.item()
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


def _options(optimizer, group, names, defaults, where):
    found = {}
    for name, value in group.items():
        if name in names and name not in _IMPLEMENTATION:
            if _plain(value) != _plain(defaults.get(name)):
                found[name] = _plain(value)
        elif name in defaults and name not in _IMPLEMENTATION and _plain(value) != _plain(defaults[name]):
            raise ExportError(f"{where}: levin's {type(optimizer).__name__} has no {name}={value!r}. " + _IN_CODE.format("optimizer") + ".")
    return found


def _check_new(optimizer, where):
    """Raises ExportError for an optimizer that has begun, or whose step is another than that of its class."""
    name, step = type(optimizer).__name__, vars(optimizer).get("step")
    of_schedule = getattr(step, "_wrapped_by_lr_sched", False) and getattr(step, "__wrapped__", None) is type(optimizer).step
    if step is not None and not of_schedule:
        raise ExportError(f"{line_of(step) or where}: step() of the {name} is another than that of its class, and levin runs its own. Write what it does "
                          "besides in C++, in on_train_batch_end() of a class below levin::ExportedModule.")
    if optimizer.state and _state_of(optimizer) != _state_of(_anew(optimizer)):
        raise ExportError(f"{where}: the {name} has taken steps, or has a state of its own, with which levin's does not begin. Return a new one. A run is "
                          "resumed from a checkpoint.")


def _anew(optimizer):
    """One of the same groups that has taken no step, with the rates that they had before any schedule."""
    return type(optimizer)([{**{key: value for key, value in group.items() if key not in ("param_names", "initial_lr")},
                             "lr": copy.deepcopy(group.get("initial_lr", group["lr"]))} for group in optimizer.param_groups])


def _state_of(optimizer):
    return {id(parameter): {key: repr(value) if not isinstance(value, torch.Tensor) else (value.sum().item(), value.abs().sum().item())
                            for key, value in state.items()} for parameter, state in optimizer.state.items() if isinstance(state, dict)}


def _check_unchanged(scheduler, made, where):
    """Raises ExportError for a schedule that is not as it was made, of which the YAML would know nothing. `made`: itself, or one as it was."""
    name, now = type(scheduler).__name__, torch_patches.scheduler_state(scheduler)
    first = getattr(scheduler, "_levin_state", None) or made._levin_state
    if now.get("_step_count") != first.get("_step_count") or now.get("last_epoch") != first.get("last_epoch") or getattr(scheduler, "last_epoch", 0) > 0:
        raise ExportError(f"{where}: the {name} has taken steps before the run (it is at {scheduler.last_epoch}), and levin's begins with the first. Make it "
                          "of the rates that it is to have, or resume from a checkpoint.")
    changed = [key for key in now if now[key] != first.get(key) and (key in first or hasattr(type(scheduler), key))]
    if changed:
        raise ExportError(f"{where}: {changed[0]} of the {name} has been changed after it was made. Give it the value when it is made. "
                          + _IN_CODE.format("lr_scheduler") + ".")
    for part, as_made in zip(getattr(scheduler, "_schedulers", ()), getattr(made, "_schedulers", ())):
        _check_unchanged(part, as_made, where)


def _check_rates(optimizer, scheduler, where):
    """Raises ExportError for rates that are others than the schedule has set."""
    for group, rate in zip(optimizer.param_groups, getattr(scheduler, "_last_lr", ())):
        if _plain(group["lr"]) != _plain(rate):
            raise ExportError(f"{where}: the optimizer has lr={_plain(group['lr'])!r}, and its {type(scheduler).__name__} has set {_plain(rate)!r}. Set the "
                              "rate before the schedule is made.")


def _optimizer_section(module, optimizer, where, scheduled):
    """`scheduled`: there is a schedule, which has begun."""
    name = type(optimizer).__name__
    source = type(optimizer).__module__.split(".")[0]
    if name in OPTIMIZERS and source != "torch":
        raise ExportError(f"{where}: {name} is of {source}, and levin's {name} may compute otherwise. If it is to be that one: give export() config=False, "
                          f"and write in YAML optimizer: {{class_path: {name}, init_args: {{…}}}}, with {', '.join(OPTIMIZERS[name])}.")
    if name not in OPTIMIZERS:
        raise ExportError(f"{where}: levin has no optimizer {name}. " + _IN_CODE.format("optimizer") + ".")
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ExportError(f"{where}: the optimizer has hooks on its step, which levin cannot run. " + _IN_CODE.format("optimizer") + ".")
    _check_new(optimizer, where)
    defaults = {key: parameter.default for key, parameter in inspect.signature(type(optimizer).__init__).parameters.items()}
    names = {id(parameter): key for key, parameter in module.named_parameters()}
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    for group in groups:  # where a scheduler has begun, the rate is that of its first step
        group["lr"] = group.get("initial_lr", group["lr"]) if scheduled else group["lr"]
    first = _options(optimizer, groups[0], OPTIMIZERS[name], defaults, where)
    first.setdefault("lr", _plain(groups[0]["lr"]))
    section = {"class_path": name, "init_args": first}
    others = []
    for group, parameters in zip(groups[1:], optimizer.param_groups[1:]):
        options = {key: _plain(group[key]) for key in OPTIMIZERS[name] if key in group and _plain(group[key]) != _plain(groups[0][key])}
        patterns = ["^" + re.escape(names[id(parameter)]) + "$" for parameter in parameters["params"]]
        others.append({"parameters": patterns, **options})
    if others:
        section["groups"] = others
    if any(id(parameter) not in names for group in optimizer.param_groups for parameter in group["params"]):
        raise ExportError(f"{where}: the optimizer has a parameter that the module does not have. Register it: "
                          "nn.Parameter, nn.ParameterList.")
    given = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    left = [key for key, parameter in module.named_parameters() if parameter.requires_grad and id(parameter) not in given]
    if left:
        raise ExportError(f"{where}: the optimizer leaves out {', '.join(left[:3])}, which require gradients. Freeze them "
                          "(requires_grad_(False)) before the export, or give them to it.")
    return section


def _lengths_in(value):
    parts = value if isinstance(value, (list, tuple)) else [value]
    return [part for part in parts if isinstance(part, _Length)]


@dataclasses.dataclass
class _Run:
    """For what a schedule is written: what it steps on, values of self.trainer, the line of configure_optimizers(), and notes of the export."""

    interval: str
    given: dict
    where: str
    notes: list

    def note_end(self, name, last):
        """`last`: the step from which on levin holds the rate. A run that is known to end before needs no note."""
        lengths = [self.given.get(length) for length, unit in _LENGTHS.items() if unit == self.interval and length != "num_training_batches"]
        known = [length for length in lengths if isinstance(length, int) and length > 0]
        note = f"{self.where}: the {name} gives no rate from {self.interval} {last + 1} on, and levin holds that of {self.interval} {last}"
        if (not known or min(known) > last + 1) and note not in self.notes:
            self.notes.append(note)


def _scheduler_section(scheduler, run):
    kind = torch_patches.scheduler_kind(scheduler, SCHEDULERS)
    if kind is None:
        return _section_of_class(scheduler, run)
    name = kind.__name__
    made = scheduler if hasattr(scheduler, "_levin_arguments") else _made_again(scheduler, _anew(scheduler.optimizer), run)
    _check_unchanged(scheduler, made, run.where)
    arguments = {}
    for key, value in made._levin_arguments.items():
        if key in ("optimizer", "last_epoch", "verbose") or value is None:
            continue
        for length in _lengths_in(value):
            if value is not length or (name, key) not in _WHOLE or _LENGTHS[length.name] != run.interval or length.name == "num_training_batches":
                raise ExportError(f"{run.where}: {name} has {key} of self.trainer.{length.name}, which is known when training begins, and steps each "
                                  f'{run.interval}. Give export() trainer={{"{length.name}": …}}. ' + _OR_IN_CODE.format("lr_scheduler") + ".")
        if _lengths_in(value):
            continue
        if key == "schedulers":
            value = [_scheduler_section(part, run) for part in value]
        if key == "lr_lambda":
            value = _expressions(name, value, run)
        if callable(value):
            raise ExportError(f"{run.where}: {name} has {key}, a function of Python. " + _IN_CODE.format("lr_scheduler") + ".")
        arguments[key] = _plain(value) if key != "schedulers" else value
    return {"class_path": name, "init_args": arguments}


def _made_again(scheduler, optimizer, run):
    """A schedule as this one, which was made before the export, was made: with what it was made of."""
    kind = torch_patches.scheduler_kind(scheduler, SCHEDULERS)
    if kind is None:
        raise ExportError(f"{run.where}: the {type(scheduler).__name__} is part of another schedule, and was made before the export. Make both in "
                          "configure_optimizers().")
    arguments = torch_patches.read_arguments(scheduler, kind)
    if "schedulers" in arguments:
        arguments["schedulers"] = [_made_again(part, optimizer, run) for part in arguments["schedulers"]]
    with torch_patches.scheduler_arguments(SCHEDULERS):
        return kind(optimizer=optimizer, **arguments)


def _section_of_class(scheduler, run):
    """A schedule of a class of the user's, as the LambdaLR or MultiplicativeLR that it is."""
    name, base = type(scheduler).__name__, torch.optim.lr_scheduler
    advice = ". Return a LambdaLR, whose function gives the factor of the initial rate at a step. " + _OR_IN_CODE.format("lr_scheduler") + "."
    if not isinstance(scheduler, base.LRScheduler) or isinstance(scheduler, base.ReduceLROnPlateau):
        raise ExportError(f"{run.where}: levin has no schedule {name}{advice}")
    if scheduler.last_epoch != 0:
        begun = "has taken steps before the run" if scheduler.last_epoch > 0 else "is a later part of a SequentialLR"
        raise ExportError(f"{run.where}: levin has no schedule {name}, and cannot read its rates, as it {begun}{advice}")
    try:
        found_name, found = schedules.of_class(scheduler)
    except schedules.NotAnExpression as error:
        raise ExportError(f"{run.where}: levin has no schedule {name}, and its rates are none that levin can write as an expression: "
                          f"{error}{advice}") from error
    return {"class_path": found_name, "init_args": {"lr_lambda": _one_or_each(name, found, run)}}


def _one_or_each(name, found, run):
    """One expression for all groups of parameters, or one for each, of those that `schedules` has found."""
    for last in {last for _, last in found if last is not None}:
        run.note_end(name, last)
    texts = [text for text, _ in found]
    return texts[0] if len(set(texts)) == 1 else texts


def _expressions(name, functions, run):
    """levin's expressions for the functions of LambdaLR and MultiplicativeLR."""
    found = []
    for function in functions if isinstance(functions, (list, tuple)) else [functions]:
        try:
            found.append(schedules.expression(function))
        except schedules.NotAnExpression as error:
            raise ExportError(f"{line_of(function) or run.where}: the function of {name} is none that levin can write as an expression: {error}. "
                              + _IN_CODE.format("lr_scheduler") + ", where lr_lambda is an expression such as \"0.95 ** epoch\".") from error
    return _one_or_each(name, found, run)


def optimizer_of(module, trainer):
    """The optimizer and the schedule, or None, that configure_optimizers() gives."""
    with seeing(module, Training(module, trainer, 1000)):
        optimizer, schedule, _ = _configured(module)
    return optimizer, schedule.get("scheduler")


def sections(module, trainer=None, notes=None):
    """The optimizer and scheduler of a LightningModule, as sections of the YAML. `trainer`: values of self.trainer. `notes`: of the
    export, which get those on the schedule."""
    if not hasattr(module, "configure_optimizers"):
        return {}
    training, notes = Training(module, trainer or {}, 1000), [] if notes is None else notes
    found, where = _sections_with(module, training, notes)
    if training.lengths_read and _sections_with(module, Training(module, trainer or {}, 1777), notes)[0] != found:
        names = ", ".join(f'"{name}": …' for name in dict.fromkeys(training.lengths_read))
        raise ExportError(f"{where}: configure_optimizers() computes with the length of training, which is known when it begins. "
                          f"Give export() trainer={{{names}}}, with which it computes. {_OR_IN_CODE.format('lr_scheduler')}.")
    return found


def _sections_with(module, training, notes):
    with seeing(module, training):
        optimizer, schedule, where = _configured(module)
        scheduler = schedule.get("scheduler")
        found = {"optimizer": _optimizer_section(module, optimizer, where, scheduler is not None)}
        section = None if scheduler is None else _scheduler_section(scheduler, _Run(schedule.get("interval", "epoch"), training._given, where, notes))
        if section is not None:
            _check_rates(optimizer, scheduler, where)
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) and not schedule.get("monitor"):
            raise ExportError(f"{where}: ReduceLROnPlateau has no monitor, without which neither Lightning nor levin takes it. Name the value: "
                              'return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "monitor": "val_loss"}}.')
    if section is not None:
        for key, default in (("interval", "epoch"), ("frequency", 1), ("monitor", None), ("strict", True), ("name", None)):
            if schedule.get(key, default) != default:
                section[key] = schedule[key]
        found["lr_scheduler"] = section
    return found, where


def _flow(value):
    """A value on one line: JSON, with YAML's own words for numbers that JSON lacks."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_flow(part)}" for key, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)


def yaml_text(value, indent=0):
    """YAML of maps, lists, numbers and texts: a block of maps, and one line for what is in them."""
    lines = []
    for key, part in value.items():
        if isinstance(part, dict) and any(isinstance(inner, (dict, list)) and inner for inner in part.values()):
            lines.append(" " * indent + f"{key}:")
            lines.append(yaml_text(part, indent + 2))
        else:
            lines.append(" " * indent + f"{key}: {_flow(part)}")
    return "\n".join(lines)


def write(path, found, precision="32-true", trainer=None, runs_on=""):
    """Writes the YAML next to the package, with the sections that were found, the precision for which the package is, what of `trainer`,
    values of self.trainer, are options, and on which processors it runs, as a comment. Gives its path."""
    target = os.path.splitext(path)[0] + ".yaml"
    options = {"accelerator": "cpu", **({"precision": precision} if precision != "32-true" else {}),
               **{name: _plain(value) for name, value in (trainer or {}).items() if name in _OPTIONS}}
    content = {"model": {"class_path": "ExportedModule", "init_args": {"package": os.path.basename(path)}}, "trainer": options, **found}
    with open(target, "w", encoding="utf-8") as file:
        file.write(f"# levin fit --config {os.path.basename(target)}, with the section data, and more of trainer, in another --config or here\n"
                   + (f"# {os.path.basename(path)}: {runs_on}\n" if runs_on else "")
                   + yaml_text(content) + "\n")
    return target
