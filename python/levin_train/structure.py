"""What a batch is made of: its leaves by name, and a batch like it with other leaves.

Containers are what torch's pytree knows (lists, tuples, named tuples, maps, and what libraries register there), other maps such as
transformers' BatchEncoding, the graphs of PyTorch Geometric, dataclasses, and objects that have tensors among their attributes.
"""

import collections
import copy
import dataclasses
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

_DEEPEST = 6  # containers in one another
_NO_CONTAINERS = (type, types.ModuleType, torch.nn.Module, torch.utils.data.DataLoader, torch.utils.data.Dataset)


@dataclasses.dataclass
class Structure:
    """A batch without its leaves. Two are equal when their containers are of the same types, with the same names."""

    kind: Any
    names: tuple[str, ...]
    parts: tuple[Any, ...]  # a Structure each, or None for a leaf
    make: Callable[[list[Any]], Any] = dataclasses.field(compare=False)

    def rebuild(self, leaves):
        """A batch with these leaves, an iterator over them."""
        return self.make([next(leaves) if part is None else part.rebuild(leaves) for part in self.parts])


def flatten(value):
    """The leaves of a value with their paths, tuples of names, and its structure, None where it is a leaf itself."""
    opened = _opened(value)
    if opened is None:
        return [((), value)], None
    names, values, make = opened
    leaves, parts = [], []
    for name, part in zip(names, values):
        found, structure = flatten(part)
        leaves += [((name, *path), leaf) for path, leaf in found]
        parts.append(structure)
    return leaves, Structure(type(value), tuple(names), tuple(parts), make)


def named_leaves(value, alone="input"):
    """What a nested value holds, by names such as "image" or "a.0", and its structure. `alone`: the name of a lone tensor."""
    leaves, structure = flatten(value)
    return [(".".join(path) or alone, leaf) for path, leaf in leaves], structure


def is_array(value):
    """Whether a value is an array of NumPy, which a batch holds as a tensor."""
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _opened(value):
    """The names and values of a container's parts, and what makes one like it of other values. None for a leaf: a tensor, or what has
    none in it."""
    if isinstance(value, torch.Tensor) or is_array(value) or not _holds_tensors(value):
        return None
    parts, spec = pytree.tree_flatten(value, is_leaf=lambda part: part is not value)
    if not spec.is_leaf():
        return _names_in_pytree(value, len(parts)), parts, lambda values: pytree.tree_unflatten(values, spec)
    if isinstance(value, (dict, collections.UserDict)):
        return [str(key) for key in value], list(value.values()), lambda values: _map_like(value, values)
    if any(base.__module__.startswith("torch_geometric.data") for base in type(value).__mro__) and hasattr(value, "stores"):
        return _graph(value)
    attributes = attributes_of(value)
    return list(attributes), list(attributes.values()), lambda values: _object_like(value, zip(attributes, values))


def _names_in_pytree(value, count):
    try:
        pairs, _ = pytree.tree_flatten_with_path(value, is_leaf=lambda part: part is not value)
        return [_part(path[0]) for path, _ in pairs]
    except ValueError:  # a library has registered the type without names
        names = [field.name for field in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else []
        return names if len(names) == count else [str(index) for index in range(count)]


def _part(key):
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _map_like(value, values):
    made = copy.copy(value)
    if isinstance(value, collections.UserDict):
        made.data = dict(zip(value.data, values))
    else:
        made.update(zip(value, values))
    return made


def _graph(value):
    """A Data, HeteroData or Batch. The number of its graphs is what its tensors say: `ptr` has one more."""
    entries = [(position, key) for position, store in enumerate(value.stores) for key in store]
    several = len(value.stores) > 1
    stores = list(value.stores)

    def name(position, key):
        part = getattr(stores[position], "_key", None) if several else None
        return key if part is None else ".".join([*(part if isinstance(part, tuple) else [part]), key])

    def make(values):
        made = copy.copy(value)
        for (position, key), each in zip(entries, values):
            made.stores[position][key] = each
        for store in made.stores:
            if "ptr" in store:
                vars(store).pop("_num_graphs", None)
        return made

    return [name(*entry) for entry in entries], [stores[position][key] for position, key in entries], make


def attributes_of(value):
    """The attributes of an object, also those that it has in slots."""
    slots = [name for base in type(value).__mro__ for name in _slots(base) if hasattr(value, name)]
    return {**{name: getattr(value, name) for name in slots}, **getattr(value, "__dict__", {})}


def _slots(base):
    slots = vars(base).get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else slots
    return [f"_{base.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
            for name in slots if name not in ("__dict__", "__weakref__")]


def _holds_tensors(value, depth=0):
    """Whether there is a tensor in a container or in an object's attributes."""
    if isinstance(value, torch.Tensor) or is_array(value):
        return True
    if depth == _DEEPEST or value is None or isinstance(value, (str, bytes, int, float, *_NO_CONTAINERS)) or inspect.isroutine(value):
        return False
    parts, spec = pytree.tree_flatten(value, is_leaf=lambda part: part is not value)
    if spec.is_leaf():
        parts = (value if isinstance(value, (dict, collections.UserDict)) else attributes_of(value)).values()
    return any(_holds_tensors(part, depth + 1) for part in parts)


def _object_like(value, attributes):
    made = copy.copy(value)
    for name, each in attributes:
        object.__setattr__(made, name, each)  # of frozen dataclasses too
    return made
