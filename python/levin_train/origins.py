"""Where tensors of a step come from: the batch, the weights, numbers of the run, random numbers, or none of these.

A value of a tensor that comes from none of them is the same in each step, and may be read as a Python number.
"""

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
BATCH, WEIGHTS, RANDOM = "the batch", "the weights", "random numbers"


class Kept(str):
    """The name of a weight that no optimizer changes: an origin besides WEIGHTS."""


# Of a number that is at least 0 and below 1: what it is compared with, and what comes out whichever was drawn.
_KNOWN = {
    _aten.lt.Scalar: lambda bound: False if bound <= 0 else True if bound >= 1 else None,
    _aten.le.Scalar: lambda bound: False if bound < 0 else True if bound >= 1 else None,
    _aten.gt.Scalar: lambda bound: False if bound >= 1 else True if bound < 0 else None,
    _aten.ge.Scalar: lambda bound: False if bound >= 1 else True if bound <= 0 else None,
}
_UNIFORM = (_aten.rand.default, _aten.rand_like.default)


def _tensors(values):
    """The tensors among arguments or results, which operators nest in lists alone."""
    if isinstance(values, torch.Tensor):
        return [values]
    parts = values.values() if isinstance(values, dict) else values if isinstance(values, (list, tuple)) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


class Origins(TorchDispatchMode):
    """While it is active: follows what is computed. Tensors that share memory have one origin."""

    def __init__(self):
        super().__init__()
        self._found = {}  # storage: names of origins
        self._written = set()  # storages that an operator has written to
        self._uniform = set()  # storages with numbers as torch.rand() draws them

    def add(self, origin, tensors):
        for tensor in tensors:
            self._mark(tensor, {origin})

    def of(self, *values):
        """The origins of all tensors in these values."""
        return {origin for origin in self._all(*values) if not isinstance(origin, Kept)}

    def kept_in(self, *values):
        """The names of the weights that no optimizer changes and of which these values are computed."""
        return {str(origin) for origin in self._all(*values) if isinstance(origin, Kept)}

    def _all(self, *values):
        found = set()
        for tensor in _tensors(values):
            key = self._key(tensor)
            found |= {BATCH} if key is None else self._found.get(key, set())
        return found

    def has_written(self, tensor):
        """Whether an operator has written to its memory, also what was there before."""
        return self._key(tensor) in self._written

    @staticmethod
    def _key(tensor):
        try:
            return StorageWeakRef(tensor.untyped_storage())  # its address is not used again while this is kept
        except (RuntimeError, NotImplementedError):  # sparse, or of torch.func
            return None

    def _mark(self, tensor, origins):
        key = self._key(tensor)
        if key is not None and origins:
            self._found[key] = self._found.get(key, set()) | origins

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        origins = self._all(args, kwargs)
        if torch.Tag.nondeterministic_seeded in function.tags:
            origins.add(RANDOM)
        if function in _KNOWN and self._key(args[0]) in self._uniform and _KNOWN[function](args[1]) is not None:
            origins = set()
        result = function(*args, **kwargs)
        written = []
        if function._schema.is_mutable:
            given = {argument.name: value for argument, value in zip(function._schema.arguments, args)} | kwargs
            written = [given[argument.name] for argument in function._schema.arguments
                       if argument.name in given and argument.alias_info and argument.alias_info.is_write]
            keys = {self._key(tensor) for tensor in _tensors(written)}
            self._uniform -= keys
            self._written |= keys
        for tensor in _tensors([result, written]):
            self._mark(tensor, origins)
        if function in _UNIFORM:
            self._uniform.add(self._key(result))
        return result
