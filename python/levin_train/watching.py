"""What a step changes besides the tensors of its module: attributes, globals, other tensors, other random numbers."""

import collections
import inspect
import random
import sys
import types

import torch

from levin_train import metric_objects
from levin_train.errors import is_users, refuse

_LIBRARIES = ("torch", "lightning", "pytorch_lightning", "torchmetrics")
_STATE_ADVICE = "Log the value, return it from the step, or make it a buffer (register_buffer)"
_RANDOM_ADVICE = "Use torch.rand(), torch.randint() or torch.randperm(), which levin draws again in each step"


def sources_of(module, function):
    """The modules of Python that the user's code is in: those of the classes, and all in the same folders."""
    names = {base.__module__ for part in module.modules() for base in type(part).__mro__} | {getattr(function, "__module__", None)}
    found = []
    for name, source in list(sys.modules.items()):
        file = getattr(source, "__file__", None) if not name.startswith("_") or name == "__main__" else None
        if file and is_users(file) and (name in names or "site-packages" not in file) and name.split(".")[0] not in _LIBRARIES:
            found.append(source)
    return found


def _fingerprint(value, depth=0):
    if isinstance(value, (int, float, str, bytes, bool, type(None))):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return id(value), 0 if value.is_inference() else value._version
    if isinstance(value, torch.Generator):
        return hash(value.get_state().numpy().tobytes())
    if isinstance(value, random.Random):
        return hash(value.getstate())
    of_library = type(value).__module__.split(".")[0] in _LIBRARIES
    if isinstance(value, (type, types.ModuleType, torch.nn.Module)) or inspect.isroutine(value) or of_library:
        return id(value)
    if hasattr(value, "bit_generator"):  # numpy's
        return repr(value.bit_generator.state)
    if hasattr(value, "tobytes"):
        return hash(value.tobytes())
    if isinstance(value, (list, tuple, set, frozenset, dict, collections.deque)):
        if depth == 3:
            return id(value), len(value)
        if isinstance(value, dict):
            return tuple((repr(key) if isinstance(key, (str, int)) else id(key), _fingerprint(part, depth + 1))
                         for key, part in list(value.items()))
        return tuple(_fingerprint(part, depth + 1) for part in list(value))
    return id(value), depth < 3 and _fingerprint(getattr(value, "__dict__", None), depth + 1)


def _own_names():
    """Attributes that torch and Lightning keep in a module for themselves."""
    lightning = sys.modules.get("lightning.pytorch") or sys.modules.get("pytorch_lightning")
    return set(vars(lightning.LightningModule() if lightning else torch.nn.Module())) | set(vars(torch.nn.Module())) | {"training"}


def computed_attributes(part):
    """Attributes that torch's older weight_norm and spectral_norm compute before each forward()."""
    return {hook.name for hook in part._forward_pre_hooks.values() if hasattr(hook, "name")}


def python_state(module, function):
    """What can change, by its name in messages."""
    own, state = _own_names(), {}
    for prefix, part in module.named_modules():
        if metric_objects.is_metric(part) or "torchmetrics" in type(part).__module__:
            continue
        of_torch = type(part).__module__.split(".")[0] == "torch"
        for name, value in vars(part).items():
            if name not in own and not (of_torch and name.startswith("_")) and name not in computed_attributes(part):
                state[f"self.{prefix}.{name}".replace("..", ".")] = _fingerprint(value)
    for source in sources_of(module, function):
        for name, value in list(vars(source).items()):
            if not name.startswith("__") and isinstance(value, (int, float, list, dict, set, collections.deque)):
                state[f"{name} of {source.__name__}"] = _fingerprint(value, 1)
    state["random"] = hash(random.getstate())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kept = numpy.random.get_state()
        state["numpy.random"] = hash(kept[1].tobytes()), kept[2]
    return state


def refuse_changes(before, after, step_line, lines):
    """Raises ExportError when a step has changed something, with the line of an assignment (`lines`, by name) or of the step."""
    for name in sorted(set(before) | set(after)):
        if before.get(name, "") == after.get(name, ""):
            continue
        where = lines.get(name, step_line)
        if name in ("random", "numpy.random"):
            refuse(f"the step draws random numbers of {name}, which would be the same in each step of the package", _RANDOM_ADVICE, where)
        refuse(f"the step changes {name}, which a package cannot do", _STATE_ADVICE, where)
