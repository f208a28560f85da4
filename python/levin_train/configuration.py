"""The YAML of a run: the package, and the optimizer and scheduler of configure_optimizers()."""

import inspect
import json
import math
import os
import re

import torch

from levin_train import torch_patches
from levin_train.errors import ExportError, line_of, refuse
from levin_train.registered import LR_SCHEDULERS, OPTIMIZERS

# How a step is computed, and not what it is.
_IMPLEMENTATION = {"foreach", "fused", "capturable", "differentiable", "initial_lr", "params", "param_names"}
# Schedules that are functions of Python have no counterpart in YAML.
SCHEDULERS = [name for name, options in LR_SCHEDULERS.items() if "lr_lambda" not in options and hasattr(torch.optim.lr_scheduler, name)]
_IN_CODE = "Give export() config=False and write the section in YAML: {}: {{class_path: …, init_args: {{…}}}}"


class _Length(int):
    """The length of training as self.trainer has it. In a scheduler's options it is left out, so that levin puts it in."""

    def _computed(self, *_):
        refuse("configure_optimizers computes with the length of training, which is known when it begins",
               _IN_CODE.format("lr_scheduler"))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __floordiv__ = __mod__ = _computed


class _Training:
    """self.trainer in configure_optimizers."""

    max_epochs = estimated_stepping_batches = max_steps = num_training_batches = _Length(1000)

    def __getattr__(self, name):
        refuse(f"configure_optimizers reads self.trainer.{name}", _IN_CODE.format("lr_scheduler"))


def _configured(module):
    module_class = type(module)
    attributes = {"trainer": _Training()}
    with torch_patches.scheduler_arguments(SCHEDULERS):
        module.__class__ = type(module_class.__name__, (module_class,), attributes)
        try:
            configured = module.configure_optimizers()
        finally:
            module.__class__ = module_class
    where = line_of(module_class.configure_optimizers)
    if isinstance(configured, torch.optim.Optimizer):
        return configured, {}, where
    if isinstance(configured, dict):
        scheduler = configured.get("lr_scheduler")
        return configured["optimizer"], scheduler if isinstance(scheduler, dict) else {"scheduler": scheduler}, where
    if isinstance(configured, (tuple, list)) and configured and all(isinstance(part, torch.optim.Optimizer) for part in configured):
        configured = (configured, [])
    if isinstance(configured, (tuple, list)) and len(configured) == 2 and len(configured[0]) == 1 and len(configured[1]) < 2:
        scheduler = configured[1][0] if configured[1] else None
        return configured[0][0], scheduler if isinstance(scheduler, dict) else {"scheduler": scheduler}, where
    raise ExportError(f"{where}: configure_optimizers gives {type(configured).__name__}, and a package is trained by one optimizer. "
                      + _IN_CODE.format("optimizer") + ".")


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


def _optimizer_section(module, optimizer, where):
    name = type(optimizer).__name__
    if name not in OPTIMIZERS or type(optimizer).__module__.split(".")[0] != "torch":
        raise ExportError(f"{where}: levin has no optimizer {name}. " + _IN_CODE.format("optimizer") + ".")
    if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        raise ExportError(f"{where}: the optimizer has hooks on its step, which levin cannot run. " + _IN_CODE.format("optimizer") + ".")
    defaults = {key: parameter.default for key, parameter in inspect.signature(type(optimizer).__init__).parameters.items()}
    names = {id(parameter): key for key, parameter in module.named_parameters()}
    groups = [{key: value for key, value in group.items() if key != "params"} for group in optimizer.param_groups]
    for group in groups:  # where a scheduler has begun, the rate is that of its first step
        group["lr"] = group.get("initial_lr", group["lr"])
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


def _scheduler_section(scheduler, where):
    name = type(scheduler).__name__
    if name not in SCHEDULERS or not hasattr(scheduler, "_levin_arguments"):
        raise ExportError(f"{where}: the schedule {name} is a function of Python, or one that levin does not have. "
                          + _IN_CODE.format("lr_scheduler") + " (LambdaLR takes an expression: lr_lambda: \"0.95 ** epoch\").")
    arguments = {}
    for key, value in scheduler._levin_arguments.items():
        if key in ("optimizer", "last_epoch", "verbose") or isinstance(value, _Length) or value is None:
            continue
        if key == "schedulers":
            value = [_scheduler_section(part, where) for part in value]
        if callable(value):
            raise ExportError(f"{where}: {name} has {key}, a function of Python. " + _IN_CODE.format("lr_scheduler") + ".")
        arguments[key] = _plain(value) if key != "schedulers" else value
    return {"class_path": name, "init_args": arguments}


def sections(module):
    """The optimizer and scheduler of a LightningModule, as sections of the YAML."""
    if not hasattr(module, "configure_optimizers"):
        return {}
    optimizer, schedule, where = _configured(module)
    found = {"optimizer": _optimizer_section(module, optimizer, where)}
    if schedule.get("scheduler") is not None:
        section = _scheduler_section(schedule["scheduler"], where)
        for key, default in (("interval", "epoch"), ("frequency", 1), ("monitor", None)):
            if schedule.get(key, default) != default:
                section[key] = schedule[key]
        found["lr_scheduler"] = section
    return found


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


def write(path, found):
    """Writes the YAML next to the package, with the sections that were found. Gives its path."""
    target = os.path.splitext(path)[0] + ".yaml"
    content = {"model": {"class_path": "ExportedModule", "init_args": {"package": os.path.basename(path)}},
               "trainer": {"accelerator": "cpu"}, **found}
    with open(target, "w", encoding="utf-8") as file:
        file.write(f"# levin fit --config {os.path.basename(target)}, with the section data, and more of trainer, in another --config or here\n"
                   + yaml_text(content) + "\n")
    return target
