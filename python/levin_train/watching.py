"""What a step changes besides the tensors of its module: attributes, globals, other tensors, other random numbers."""

import collections
import contextlib
import inspect
import itertools
import operator
import random
import sys
import types

import torch

from levin_train import metric_objects
from levin_train.errors import ExportError, is_users, refuse, shown_path
from levin_train.python_numbers import Number
from levin_train.structure import attributes_of
from levin_train.users_code import sources_of

_LIBRARIES = ("torch", "lightning", "pytorch_lightning", "torchmetrics")
_STATE_ADVICE = "Log the value, return it from the step, or make it a buffer (register_buffer)"
_RANDOM_ADVICE = ("Use torch's, which levin draws again in each step, as tensors: torch.rand(()), torch.randint(), torch.randperm(), "
                  "torch.distributions.Beta(a, b).sample(); and torch.where where the step decides on one")
_PLAIN = (int, float, complex, str, bytes, bool, type(None), torch.device, torch.dtype)
_LARGE = 10_000_000  # elements of a tensor, whose values take long to compare
_DEEPEST = 6  # objects and containers in one another
_MOST = 20_000  # of them in all, so that a data set in an attribute does not take long
_CONTAINERS = (list, tuple, set, frozenset, dict, collections.deque)


def print_of_tensor(value, largest=_LARGE):
    """What differs where the numbers of a tensor do. Of one with more than `largest` elements, what differs where torch has written to it."""
    if value.is_inference() or value.layout != torch.strided or value.numel() > largest or value.device.type == "meta":
        return id(value), 0 if value.is_inference() else value._version
    with torch._C.DisableTorchFunction():
        data = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
        return str(value.dtype), tuple(value.shape), hash(data.view(torch.uint8).numpy().tobytes()) if value.numel() else 0


class _Prints:
    """What differs where a value has changed. Tensors count by their numbers: a step may make the same ones again."""

    def __init__(self):
        self._known = {}  # of what has parts, by identity and the depth at which it was met

    def of(self, value, depth=0):
        if isinstance(value, (*_PLAIN, itertools.count)):
            return repr(value)
        if isinstance(value, torch.Tensor):
            return print_of_tensor(value)
        if isinstance(value, Number):
            return print_of_tensor(value.tensor)
        if isinstance(value, torch.Generator):
            return hash(value.get_state().numpy().tobytes())
        if isinstance(value, random.Random):
            return hash(value.getstate())
        if _has_cells(value):
            return self._inner(value, depth)
        if isinstance(value, (type, types.ModuleType, torch.nn.Module)) or inspect.isroutine(value):
            return id(value)
        if hasattr(type(value), "bit_generator"):  # numpy's; the user's own __getattr__() may raise anything
            return repr(value.bit_generator.state)
        if hasattr(type(value), "tobytes"):
            return hash(value.tobytes())
        return self._inner(value, depth)

    def _inner(self, value, depth):
        """Of a container, an object or a function, which is looked into once at each depth."""
        key = (id(value), depth)
        if key not in self._known:
            self._known[key] = value, self._looked_into(value, depth)  # the value is kept, so that its identity stays its own
        return self._known[key][1]

    def _looked_into(self, value, depth):
        ends = depth >= _DEEPEST or len(self._known) > _MOST
        if isinstance(value, _CONTAINERS):
            parts = _parts_of(value)
            if ends:
                return id(value), len(parts)
            if isinstance(value, dict):
                return tuple((repr(key) if isinstance(key, (str, int)) else id(key), self.of(part, depth + 1)) for key, part in parts)
            return tuple(self.of(part, depth + 1) for part in parts)
        if ends:
            return type(value).__qualname__, id(value)
        if _has_cells(value):
            return id(value), tuple(self.of(part, depth + 1) for part in _kept_by(value))
        attributes = attributes_of(value)
        if not attributes and (not hasattr(value, "__dict__") or type(value).__module__.split(".")[0] in _LIBRARIES):
            return type(value).__qualname__, id(value)
        return type(value).__qualname__, tuple((name, self.of(part, depth + 1)) for name, part in attributes.items())


def _fingerprint(value):
    return _Prints().of(value)


def _parts_of(value):
    """What a container holds, pairs of a map. The methods of a subclass may do something else, or raise."""
    kind = next(kind for kind in _CONTAINERS if isinstance(value, kind))
    return list(dict.items(value)) if kind is dict else list(kind.__iter__(value))


def _has_cells(value):
    """Whether it is a function of the user's that may keep something."""
    return isinstance(value, types.FunctionType) and bool(value.__closure__ or value.__defaults__) and is_users(value.__code__.co_filename)


def _kept_by(function):
    """What a function keeps from one call to the next: the variables around it, and default values."""
    cells = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # it is empty
            cells.append(cell.cell_contents)
    return [*cells, *(function.__defaults__ or ())]


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


def _users_classes(module):
    """The user's classes of which parts of a module are."""
    files = {name: getattr(sys.modules.get(name), "__file__", None) for part in module.modules() for name in (base.__module__ for base in type(part).__mro__)}
    return list(dict.fromkeys(base for part in module.modules() for base in type(part).__mro__ if files[base.__module__] and is_users(files[base.__module__])))


def _is_kept_by_class(name, value):
    """Whether an attribute of a class may be a state, and not what the class is made of."""
    return not name.startswith(("__", "_abc_")) and (_has_cells(value) or not (inspect.isroutine(value) or hasattr(type(value), "__get__") or isinstance(value, type)))


def _of_classes(module):
    """As _attributes(), of the user's classes. What is found by way of the module itself has the name that it has there."""
    of_module = type(module).__mro__
    return [(f"self.{name}" if base in of_module and not _has_cells(value) else f"{name} of {base.__name__}", vars(base), name)
            for base in _users_classes(module) for name, value in list(vars(base).items())
            if _is_kept_by_class(name, value) and not (base in of_module and name in vars(module))]


def _globals(module, function):
    sources = sources_of(module, function)
    own = {source.__name__ for source in sources}
    kept = (int, float, list, dict, set, collections.deque, itertools.count)
    return [(f"{name} of {source.__name__}", vars(source), name) for source in sources
            for name, value in list(vars(source).items())
            if not name.startswith("__") and (isinstance(value, kept) or _has_cells(value) or _is_object_of(own, value))]


def _is_object_of(sources, value):
    return type(value).__module__ in sources and not isinstance(value, (type, torch.nn.Module))


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
        self._places = {name: (owner, key) for name, owner, key in [*_attributes(module), *_of_classes(module), *_globals(module, function)]}
        self._values = {name: owner[key] for name, (owner, key) in self._places.items()}
        self._shown = {name: _shown(value) for name, value in self._values.items()}
        self.prints = {name: _fingerprint(owner[key]) for name, (owner, key) in self._places.items()}
        self.prints |= {name: look() for name, look in _generators().items()}

    def look(self, name):
        """A function that gives what of this name is now."""
        if name in _generators():
            return _generators()[name]
        owner, key = self._places[name]
        return lambda: _fingerprint(owner.get(key))

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
    parts = [part for _, part in _parts_of(value)] if isinstance(value, dict) else _parts_of(value) if isinstance(value, _CONTAINERS) else \
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
    if isinstance(value, _CONTAINERS):
        return f"a {type(value).__name__} of {len(_parts_of(value))}"
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
    return line_of_change(run, lambda: print_of_tensor(operator.attrgetter(name)(module)))


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
    of_classes = [(base, {name: (value, _copied(value)) for name, value in vars(base).items() if _is_kept_by_class(name, value)})
                  for base in _users_classes(module)]
    try:
        yield
    finally:
        for base, before in of_classes:
            for name in [name for name, value in vars(base).items() if _is_kept_by_class(name, value) and name not in before]:
                delattr(base, name)
            for name, (value, copy) in before.items():
                if vars(base).get(name) is not value or value is not copy:
                    setattr(base, name, value if value is copy else _restore(value, copy))
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


@contextlib.contextmanager
def preserved_globals(module, function):
    """Puts the globals of the user's sources back at the end."""
    kept = [(owner, key, owner[key], _copied(owner[key])) for _, owner, key in _globals(module, function)]
    try:
        yield
    finally:
        for owner, key, value, copy in kept:
            owner[key] = value if value is copy else _restore(value, copy)
