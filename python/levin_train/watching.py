"""What a step changes besides the tensors of its module: attributes, globals, other tensors, other random numbers."""

import collections
import contextlib
import inspect
import operator
import random
import sys
import types

import torch

from levin_train import metric_objects
from levin_train.errors import ExportError, is_users, refuse, shown_path
from levin_train.python_numbers import Number
from levin_train.users_code import sources_of

_LIBRARIES = ("torch", "lightning", "pytorch_lightning", "torchmetrics")
_STATE_ADVICE = "Log the value, return it from the step, or make it a buffer (register_buffer)"
_RANDOM_ADVICE = ("Use torch's, which levin draws again in each step, as tensors: torch.rand(()), torch.randint(), torch.randperm(), "
                  "torch.distributions.Beta(a, b).sample(); and torch.where where the step decides on one")
_PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.device, torch.dtype)
_LARGE = 10_000_000  # elements of a tensor, whose values take long to compare


def _of_tensor(value):
    if value.is_inference() or value.layout != torch.strided or value.numel() > _LARGE or value.device.type == "meta":
        return id(value), 0 if value.is_inference() else value._version
    with torch._C.DisableTorchFunction():
        data = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return str(value.dtype), tuple(value.shape), hash(data.view(torch.uint8).numpy().tobytes()) if value.numel() else 0


def _fingerprint(value, depth=0):
    """What differs where a value has changed. Tensors count by their numbers: a step may make the same ones again."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if isinstance(value, Number):
        return _of_tensor(value.tensor)
    if isinstance(value, torch.Generator):
        return hash(value.get_state().numpy().tobytes())
    if isinstance(value, random.Random):
        return hash(value.getstate())
    of_library = type(value).__module__.split(".")[0] in _LIBRARIES
    if isinstance(value, (type, types.ModuleType, torch.nn.Module)) or inspect.isroutine(value):
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
    if of_library and not hasattr(value, "__dict__"):
        return id(value)
    return type(value).__qualname__, id(value) if depth >= 3 or not hasattr(value, "__dict__") else _fingerprint(vars(value), depth + 1)


def _own_names():
    """Attributes that torch and Lightning keep in a module for themselves."""
    lightning = sys.modules.get("lightning.pytorch") or sys.modules.get("pytorch_lightning")
    return set(vars(lightning.LightningModule() if lightning else torch.nn.Module())) | set(vars(torch.nn.Module())) | {"training"}


def computed_attributes(part):
    """Attributes that torch's older weight_norm and spectral_norm, and its pruning, compute before each forward()."""
    hooks = part._forward_pre_hooks.values()
    return {name for hook in hooks for name in (getattr(hook, "name", None), getattr(hook, "_tensor_name", None)) if isinstance(name, str)}


def _attributes(module):
    """(name in messages, the dict that has it, key) of each attribute that may hold a state of the user's."""
    own, found = _own_names(), []
    metrics = {id(metric) for metric in metric_objects.metrics_of(module).values()}
    for prefix, part in module.named_modules():
        if id(part) in metrics or "torchmetrics" in type(part).__module__:
            continue
        of_torch = type(part).__module__.split(".")[0] == "torch"
        computed = computed_attributes(part)
        for name in list(vars(part)):
            if name not in own and not (of_torch and name.startswith("_")) and name not in computed:
                found.append((f"self.{prefix}.{name}".replace("..", "."), vars(part), name))
    return found


def _globals(module, function):
    return [(f"{name} of {source.__name__}", vars(source), name) for source in sources_of(module, function)
            for name, value in list(vars(source).items())
            if not name.startswith("__") and isinstance(value, (int, float, list, dict, set, collections.deque))]


def _generators():
    """Looks at the generators of random numbers that are Python's and NumPy's own, by name."""
    found = {"random": lambda: hash(random.getstate())}
    if "numpy" in sys.modules:
        found["numpy.random"] = lambda: [hash(part.tobytes()) if hasattr(part, "tobytes") else part
                                         for part in sys.modules["numpy"].random.get_state()]
    return found


class State:
    """What can change besides tensors of the module, by its name in messages, as it is now."""

    def __init__(self, module, function):
        self._places = {name: (owner, key, depth) for places, depth in ((_attributes(module), 0), (_globals(module, function), 1))
                        for name, owner, key in places}
        self._values = {name: owner[key] for name, (owner, key, _) in self._places.items()}
        self._shown = {name: _shown(value) for name, value in self._values.items()}
        self.prints = {name: _fingerprint(owner[key], depth) for name, (owner, key, depth) in self._places.items()}
        self.prints |= {name: look() for name, look in _generators().items()}

    def look(self, name):
        """A function that gives what of this name is now."""
        if name in _generators():
            return _generators()[name]
        owner, key, depth = self._places[name]
        return lambda: _fingerprint(owner.get(key), depth)

    def changed(self, later):
        """The names of what has changed."""
        return [name for name in sorted(set(self.prints) | set(later.prints)) if self.prints.get(name, "") != later.prints.get(name, "")]

    def kept_numbers(self, later):
        """The names of attributes that still hold a number which a step computed before this was looked at."""
        return [name for name, value in self._values.items() if isinstance(value, Number) and later._values.get(name) is value]

    def shown(self, name):
        return self._shown.get(name, "nothing")

    def tensors(self):
        """The tensors that attributes hold, by identity, with the names of the attributes."""
        found = {}
        for name, value in self._values.items():
            for tensor in _tensors_in(value):
                found.setdefault(id(tensor), (name, tensor))
        return found


def _tensors_in(value, depth=0):
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Number):
        return [value.tensor]
    if depth == 3 or isinstance(value, (*_PLAIN, type, types.ModuleType, torch.nn.Module)):
        return []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set, collections.deque)) else \
        vars(value).values() if hasattr(value, "__dict__") else ()
    return [tensor for part in list(parts) for tensor in _tensors_in(part, depth + 1)]


def _shown(value):
    """A value in a message."""
    if isinstance(value, _PLAIN):
        text = repr(value)
        return text if len(text) <= 40 else text[:37] + "…"
    if isinstance(value, torch.Tensor):
        few = 0 < value.numel() <= 4 and value.device.type == "cpu" and value.layout == torch.strided
        return f"a tensor {[float(f'{float(each):.4g}') for each in value.detach().reshape(-1)]}" if few else f"a tensor of shape {list(value.shape)}"
    if isinstance(value, (list, tuple, set, dict, collections.deque)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def refuse_kept(name, module, start, run, step_line):
    """Raises ExportError for a number that the first step has left in an attribute, which `start` held otherwise."""
    owner, key = next((owner, key) for each, owner, key in _attributes(module) if each == name)
    owner[key] = start.get(name)
    line = line_of_change(run, lambda: _fingerprint(owner.get(key))) or step_line
    refuse(f"the step keeps a number in {name} for later steps, which a package cannot do", _STATE_ADVICE, line)


def attributes_now(module):
    """What attributes that may hold a state hold now, by name."""
    return {name: owner[key] for name, owner, key in _attributes(module)}


def line_of_write(module, name, run):
    """The user's line that changes the values of a parameter while run() runs."""
    return line_of_change(run, lambda: _of_tensor(operator.attrgetter(name)(module)))


def refuse_change(name, before, after, run, step_line):
    """Raises ExportError for what a step has changed. `run`: runs it again, to find the line that does."""
    line = line_of_change(run, after.look(name) if name in after.prints else before.look(name)) or step_line
    if name in ("random", "numpy.random"):
        refuse(f"the step draws random numbers of {name}, which would be the same in each step of the package", _RANDOM_ADVICE, line)
    values = f" from {before.shown(name)} to {after.shown(name)}"
    refuse(f"the step changes {name}{values if before.shown(name) != after.shown(name) else ''}, which a package cannot do", _STATE_ADVICE, line)


def line_of_change(run, look):
    """The user's line after which look() gives something else while run() runs, which may be refused; an empty string when there is none."""
    before, found, lines = look(), [], {}

    def on_event(frame, event, argument):
        """What has changed since the last event was changed by the line of this frame that ran until now."""
        if not found and look() != before:
            caller = frame.f_back
            while frame not in lines and caller.f_back is not None and not is_users(caller.f_code.co_filename):
                caller = caller.f_back
            at = lines.get(frame) or (caller.f_code.co_filename, caller.f_lineno)
            found.append(f"{shown_path(at[0])}:{at[1]}")
        lines[frame] = frame.f_code.co_filename, frame.f_lineno
        if event == "return":
            del lines[frame]
        return None if found else on_event

    outer = sys.gettrace()
    sys.settrace(lambda frame, event, argument: on_event if not found and is_users(frame.f_code.co_filename) else None)
    try:
        with contextlib.suppress(ExportError):
            run()
    finally:
        sys.settrace(outer)
    return found[0] if found else ""


def _copied(value, depth=0):
    """A copy of a container that the step may change in place."""
    if depth == 3 or type(value) not in (list, dict, set, collections.deque):
        return value
    if isinstance(value, dict):
        return {key: _copied(part, depth + 1) for key, part in value.items()}
    return type(value)(_copied(part, depth + 1) for part in value)


def _restore(value, copy, depth=0):
    """Puts back what a container held, into the same container."""
    if value is copy or type(value) not in (list, dict, set, collections.deque) or type(value) is not type(copy):
        return copy
    inner = {key: part for key, part in value.items()} if isinstance(value, dict) else dict(enumerate(value))
    value.clear()
    if isinstance(copy, dict):
        value.update({key: _restore(inner.get(key, part), part, depth + 1) for key, part in copy.items()})
    elif isinstance(copy, set):
        value.update(copy)
    else:
        value.extend(_restore(inner.get(index, part), part, depth + 1) for index, part in enumerate(copy))
    return value


@contextlib.contextmanager
def preserved(module):
    """Puts the attributes of a module back at the end."""
    own = _own_names()
    kept = [(vars(part), {name: (value, _copied(value), dict(vars(value)) if _has_state(value) else None)
                          for name, value in vars(part).items() if name not in own}) for part in module.modules()]
    try:
        yield
    finally:
        for attributes, before in kept:
            for name in set(attributes) - set(before) - own:
                del attributes[name]
            for name, (value, copy, state) in before.items():
                attributes[name] = value if value is copy else _restore(value, copy)
                if state is not None:
                    vars(value).clear()
                    vars(value).update(state)


def _has_state(value):
    """Whether it is an object of the user's with attributes, such as a configuration."""
    return hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType, torch.nn.Module, torch.Tensor)) and \
        not inspect.isroutine(value)
