"""The user's own modules of Python, and what their names mean while a step runs.

A step that calls len(), min(), max(), int(), float() or math's functions on tensors, sizes and numbers of the run stays one for all
batches; the time is Unknown; and what torch.compile() and torch.jit.script() have made of a function is that function.
"""

import ast
import contextlib
import functools
import math
import sys
import time
import types

import torch

from levin_train import python_numbers
from levin_train.branches import syntax_of_file
from levin_train.errors import is_users
from levin_train.metric_objects import Updated
from levin_train.python_numbers import Number, Unknown

_LIBRARIES = ("torch", "lightning", "pytorch_lightning", "torchmetrics")
_CLOCKS = [name for name in ("time", "perf_counter", "monotonic", "process_time") for name in (name, f"{name}_ns")]
_TIME_ADVICE = "levin's progress bar and its callback ThroughputMonitor measure steps"


def sources_of(module, function, others=()):
    """The modules of Python that the user's code is in: those of the classes, all in the same folders, and others of these names."""
    names = {*others} | {base.__module__ for part in module.modules() for base in type(part).__mro__} | {getattr(function, "__module__", None)}
    found = []
    for name, source in list(sys.modules.items()):
        file = getattr(source, "__file__", None) if not name.startswith("_") or name == "__main__" else None
        if file and is_users(file) and (name in names or "site-packages" not in file) and name.split(".")[0] not in _LIBRARIES:
            found.append(source)
    return found


def _length(value):
    if isinstance(value, torch.Tensor) and value.dim() > 0:
        return value.shape[0]
    own = getattr(type(value), "__len__", None)  # may give a size, which len() would make a number
    return own(value) if isinstance(own, types.FunctionType) else len(value)


class _Type(type):
    """int or float in the user's code, where it converts what Python itself would make a fixed number of. isinstance() knows the type."""

    def __instancecheck__(cls, value):
        return isinstance(value, cls.original)

    def __call__(cls, *values, **options):
        if len(values) == 1 and not options:
            if isinstance(values[0], cls.sizes):
                return cls.of_size(values[0])
            if isinstance(values[0], Number):
                return cls.of_number(values[0])
            if cls.original is int and isinstance(values[0], torch.Tensor) and values[0].numel() == 1 and not values[0].is_floating_point():
                return cls.of_tensor(values[0])
            if cls.original is float and isinstance(values[0], (torch.Tensor, Updated)):
                tensor = values[0].value() if isinstance(values[0], Updated) else values[0]
                return cls(cls.number_of(tensor)) if tensor.numel() == 1 else float(tensor)
        return cls.original(*values, **options)


def _types(number_of, whole_of):
    """int and float of the user's code, by name. `number_of`: as of_math() has it; `whole_of`: what int() makes of a tensor."""
    return {"int": _Type("int", (), {"original": int, "of_tensor": staticmethod(whole_of), "sizes": (torch.SymInt, torch.SymFloat), "of_size": torch.sym_int, "of_number": math.trunc}),
            "float": _Type("float", (), {"original": float, "sizes": (torch.SymInt, torch.SymFloat), "of_size": torch.sym_float,
                                         "of_number": Number.to_float, "number_of": staticmethod(number_of)})}


def _parts_of(node):
    return {id(part) for part in ast.walk(node)} if node is not None else set()


@functools.lru_cache(maxsize=None)
def _converting(filename):
    """Those of int and float that this file only calls, and names in annotations and isinstance(): not as a dtype."""
    tree = syntax_of_file(filename)
    if tree is None:
        return frozenset()
    known, used = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("int", "float"):
            used.setdefault(node.id, []).append(node)
        elif isinstance(node, ast.Call):
            asks = isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass", "map") and node.args
            known |= {id(node.func)} | (set().union(*map(_parts_of, node.args)) if asks else set())
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            known |= _parts_of(node.returns)
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            known |= _parts_of(node.annotation)
    return frozenset(name for name, nodes in used.items() if all(id(node) in known for node in nodes))


def _like_module(module, functions):
    """A module of Python with other functions."""
    copy = types.ModuleType(module.__name__)
    vars(copy).update({**vars(module), **functions})
    return copy


def _meaning(log, everything):
    """What names of builtins mean, and objects that may have any name, by their identity. `everything`: also what only the recording
    needs, and not the reference."""
    clocks = {name: lambda *_, _name=name: Unknown(f"the time (time.{_name}())", _TIME_ADVICE, log.decide_unknown) for name in _CLOCKS}
    names, objects = {"print": log.print}, {id(getattr(time, name)): clock for name, clock in clocks.items()}
    objects[id(time)] = _like_module(time, clocks)
    if everything:
        functions = {name: python_numbers.of_math(name, log.number_of) for name in vars(math) if callable(getattr(math, name)) and name[0] != "_"}
        names |= {"len": _length, "min": python_numbers.extreme("min"), "max": python_numbers.extreme("max"), **_types(log.number_of, log.whole_of)}
        objects |= {id(getattr(math, name)): function for name, function in functions.items()}
        objects[id(math)] = _like_module(math, functions)
    return names, objects


def _original(value):
    """The function that was scripted or compiled, where `value` is what came out."""
    if isinstance(value, torch.jit.ScriptFunction):
        return getattr(value, "_torchdynamo_inline", None)
    return getattr(value, "_torchdynamo_orig_callable", None) if isinstance(value, types.FunctionType) else None


@contextlib.contextmanager
def replaced(module, function, log, everything=True, others=()):
    """While it lasts, names of the user's sources have these meanings, and in modules of Python with the names `others`."""
    sources = sources_of(module, function, others)
    log.sources = {source.__name__ for source in sources}
    names, objects = _meaning(log, everything)
    added, changed = [], []
    for source in map(vars, sources):
        changed += [(source, name, value, objects.get(id(value)) or _original(value)) for name, value in list(source.items())
                    if not name.startswith("__") and (id(value) in objects or _original(value) is not None)]
        converting = _converting(source["__file__"])
        added += [(source, name) for name in names if name not in source and (name not in ("int", "float") or name in converting)]
    for source, name, _, value in changed:
        source[name] = value
    for source, name in added:
        source[name] = names[name]
    try:
        yield
    finally:
        for source, name in added:
            del source[name]
        for source, name, value, _ in changed:
            source[name] = value


@contextlib.contextmanager
def uncompiled(module):
    """While it lasts, parts that torch.compile() has wrapped run as they were."""
    kept = []
    for part in module.modules():
        changes = {"forward": part._orig_mod.__call__} if isinstance(getattr(part, "_orig_mod", None), torch.nn.Module) else {}
        if vars(part).get("_compiled_call_impl") is not None:  # of part.compile()
            changes["_compiled_call_impl"] = None
        kept += [(vars(part), name, vars(part)[name]) for name in changes if name in vars(part)]
        vars(part).update(changes)
    try:
        yield
    finally:
        for attributes, name, value in kept:
            attributes[name] = value
