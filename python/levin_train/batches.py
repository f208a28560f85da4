"""Batches as lists of tensors with names: which dimensions vary, and batches of other sizes made of one."""

import dataclasses
import numbers
from typing import Any

import torch

from levin_train.errors import ExportError, refuse
from levin_train.structure import is_array, named_leaves

SUPPORTED = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
             torch.uint8, torch.bool)
_GIVE = "Give export() a batch as a loader gives it."


@dataclasses.dataclass
class BatchLayout:
    """The tensors of a batch, which of their dimensions vary, and what else is in it.

    Of one example alone the first dimensions vary, and levin makes batches of other sizes of it. Several examples are taken as they
    are: what varies is what differs between them."""

    names: list[str]  # of the tensors
    examples: list[list[torch.Tensor]]
    dimensions: list[list[Any]]  # of each tensor: the name of a dimension that varies, or a size
    notes: list[str]  # what of the batch is fixed in the package, or given otherwise than the loader gives it
    _structure: Any
    _positions: list[int]
    _leaves: list[Any]
    _follows: dict[int, tuple[int, int]]  # leaves that are a size: of which tensor, in which dimension

    @property
    def tensors(self):
        return self.examples[0]

    @property
    def is_compared(self):
        """Whether there are several examples, so that no others are made."""
        return len(self.examples) > 1

    def rebuild(self, tensors):
        leaves = list(self._leaves)
        for position, tensor in zip(self._positions, tensors):
            leaves[position] = tensor
        for position, (index, axis) in self._follows.items():
            leaves[position] = tensors[index].shape[axis]
        return leaves[0] if self._structure is None else self._structure.rebuild(iter(leaves))

    def sizes(self, tensors=None):
        """The size of each dimension that varies, in the first example or in other tensors."""
        return {name: tensor.shape[axis] for tensor, names in zip(tensors or self.tensors, self.dimensions)
                for axis, name in enumerate(names) if isinstance(name, str)}

    def resized(self, sizes, seed=0):
        """The example's tensors with other sizes: its slices drawn again, alike for tensors that share a dimension, and in their order."""
        old = self.sizes()
        picks = {name: torch.arange(size) if size == old[name] else self._drawn(name, size, old[name], seed) for name, size in sizes.items()}
        tensors = []
        for tensor, names in zip(self.tensors, self.dimensions):
            for axis, name in enumerate(names):
                if name in picks:
                    tensor = tensor.index_select(axis, picks[name].to(tensor.device))
            tensors.append(tensor.contiguous())
        return tensors

    def _drawn(self, name, size, old, seed):
        """So many of the slices of a dimension, each once as long as there are enough: a deviation of equal rows is 0. The rows with the largest
        numbers are among them: of the longest text, or of all classes."""
        generator = torch.Generator().manual_seed(seed)
        whole = [tensor for tensor, names in zip(self.tensors, self.dimensions)
                 if names and names[0] == name and tensor.numel() and not tensor.is_floating_point()]
        largest = [int(tensor.reshape(old, -1).sum(1).argmax()) for tensor in sorted(whole, key=torch.Tensor.dim)]
        largest = list(dict.fromkeys(largest[seed % len(largest):] + largest[:seed % len(largest)])) if largest else []
        others = [row for row in torch.randperm(old, generator=generator).tolist() if row not in largest]
        more = torch.randint(old, (max(size - old, 0),), generator=generator).tolist()
        return torch.tensor((largest + others + more)[:size]).sort().values

    def compared(self, sizes, special):
        """Batches with which a package is compared: the examples, and others of these sizes, or with one `special` size of a dimension,
        where there is one example alone."""
        if self.is_compared:
            return self.examples
        example = self.sizes()
        made = [self.resized({name: size if name == "batch" else max(2, old - seed) for name, old in example.items()}, seed + 1)
                for seed, size in enumerate(sizes if example else ())]
        return [*self.examples, *made, *(self.resized({**example, name: size}, size) for name, size in sorted(special))]


def layout_of(batch, others, dynamic):
    """How a batch is laid out. Raises ExportError for one without tensors, and for `others` of another structure.

    dynamic: dimensions that vary besides those that are found: {"tokens": {1: "time"}}.
    """
    leaves, structure = named_leaves(batch)
    names, examples = _tensors(batch, leaves), []
    for each in (batch, *others):
        found, its_structure = named_leaves(each)
        if its_structure != structure or [name for name, _ in found] != [name for name, _ in leaves]:
            raise ExportError("The example batches differ in their structure. A package takes batches of one structure.")
        _check_kinds(leaves, found)
        examples.append(found)
    positions = [index for index, (_, leaf) in enumerate(leaves) if _is_tensor(leaf)]
    tensors = [[torch.as_tensor(found[index][1]).detach() for index in positions] for found in examples]
    _check_alike(names, tensors)
    dimensions = _dimensions_of_several(names, tensors) if others else _dimensions_of_one(tensors[0])
    for name, axes in (dynamic or {}).items():
        if name not in names:
            raise ExportError(f'dynamic names "{name}", which the batch does not have. It has: {", ".join(names)}.')
        for axis, dimension in axes.items():
            dimensions[names.index(name)][axis] = dimension
    leaves, follows, notes = _values(examples, names, tensors, dimensions)
    if others and not any(isinstance(name, str) for found in dimensions for name in found):
        notes.append("the batches are of one size, so that all sizes are fixed in the package: give batches that differ in what varies")
    return BatchLayout(names, tensors, dimensions, notes, structure, positions, leaves, follows)


def _check_kinds(first, other):
    """Raises ExportError where one batch has a tensor and another has none."""
    for (name, one), (_, another) in zip(first, other):
        if _is_tensor(one) != _is_tensor(another):
            lacks = next(leaf for leaf in (one, another) if not _is_tensor(leaf))
            raise ExportError(f'"{name}" of the batch is a tensor in one example batch, and {_short(lacks)} in another. A package takes batches of one '
                              "structure. Give a tensor always, as a mask of ones.")


def _is_tensor(leaf):
    return isinstance(leaf, torch.Tensor) or is_array(leaf)


def _tensors(batch, leaves):
    """The names of the tensors. Raises ExportError for those that a package does not take."""
    names = [name for name, leaf in leaves if _is_tensor(leaf)]
    if not names:
        raise ExportError(f"The batch has no tensor: it is a {type(batch).__name__}. {_GIVE}")
    for name, leaf in leaves:
        if is_array(leaf) and leaf.dtype.kind not in "fiub":
            raise ExportError(f'"{name}" of the batch is an array of {leaf.dtype}, which a package does not take. Leave it out in the dataset.')
        tensor = torch.as_tensor(leaf) if _is_tensor(leaf) else None
        if tensor is not None and (tensor.layout != torch.strided or tensor.dtype not in SUPPORTED):
            raise ExportError(f'"{name}" of the batch is a tensor of {tensor.dtype} ({tensor.layout}), which a package does not take.'
                              + (complex_advice(tensor) or " Convert it in the dataset."))
    return names


def complex_advice(tensor):
    """What to do about a tensor of complex numbers: packages and files of weights hold real ones."""
    return " Hold torch.view_as_real() of it, and compute with torch.view_as_complex() in the step." if tensor.is_complex() else ""


def _check_alike(names, examples):
    first = examples[0]
    for tensors in examples[1:]:
        for name, one, other in zip(names, first, tensors):
            if one.dim() != other.dim() or one.dtype != other.dtype:
                raise ExportError(f'"{name}" has {one.dim()} dimensions of {one.dtype} in one example batch, and '
                                  f"{other.dim()} of {other.dtype} in another. Give it one type.")


def _dimensions_of_one(tensors):
    dimensions = [list(tensor.shape) for tensor in tensors]
    batch_size = next((tensor.shape[0] for tensor in tensors if tensor.dim() > 0), None)
    for tensor, found in zip(tensors, dimensions):
        if tensor.dim() > 0 and tensor.shape[0] == batch_size:
            found[0] = "batch"
    return dimensions


def _dimensions_of_several(names, examples):
    """Dimensions that have the same size as one another in each example are one. Those that have one size in all examples are fixed, but
    for the number of rows where all tensors begin with it: the last batch of an epoch has fewer."""
    def sizes(index, axis):
        return tuple(tensors[index].shape[axis] for tensors in examples)

    rows = [sizes(index, 0) for index, tensor in enumerate(examples[0]) if tensor.dim() > 0]
    found = {rows[0]: "batch"} if rows and (len(set(rows)) == 1 or len(set(rows[0])) > 1) else {}
    dimensions = []
    for index, tensor in enumerate(examples[0]):
        named = []
        for axis in range(tensor.dim()):
            each = sizes(index, axis)
            varies = len(set(each)) > 1
            if varies:
                found.setdefault(each, f"{names[index]}_{axis}".replace(".", "_"))
            named.append(found[each] if varies or axis == 0 and each in found else each[0])
        dimensions.append(named)
    return dimensions


class _Differing:
    """What a step gets for a value that is no tensor and differs between the batches: any use of it is an error."""

    def __init__(self, name, values):
        self.__dict__["_levin"] = (f'the step reads "{name}" of the batch, which is no tensor and differs between the batches: {values}',
                                   "Make it a tensor in the dataset")

    def _used(self, *_):
        refuse(*self.__dict__["_levin"])

    __getattr__ = __call__ = __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = __int__ = __float__ = __index__ = __str__ = _used
    __repr__ = __format__ = __hash__ = __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _used
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __mod__ = __pow__ = _used


def _short(value):
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _same(one, other):
    try:
        return one is other or type(one) is type(other) and bool(one == other)
    except Exception:  # what cannot be compared
        return False


def _values(examples, names, tensors, dimensions):
    """What of a batch is no tensor: the leaves as a step gets them; leaves that are the size of a dimension in each example, such as how
    many graphs a batch has, with the tensor and the dimension, which they follow; and notes."""
    leaves, follows, notes = [leaf for _, leaf in examples[0]], {}, []
    for position, (name, leaf) in enumerate(examples[0]):
        if is_array(leaf):
            notes.append(f'"{name}" of the batch is an array of NumPy: the steps get a tensor')
        if _is_tensor(leaf):
            continue
        values = [found[position][1] for found in examples]
        if all(_same(leaf, value) for value in values):
            notes.append(f'"{name}" of the batch is None, and so it is in the package, which does not use a tensor of that name' if leaf is None else
                         f'"{name}" of the batch is not a tensor: {_short(leaf)} is fixed in the package')
            continue
        places = ((index, axis) for index, named in enumerate(dimensions) for axis, dimension in enumerate(named) if isinstance(dimension, str))
        place = next((place for place in places if isinstance(leaf, numbers.Integral)
                      and values == [each[place[0]].shape[place[1]] for each in tensors]), None)
        if place is None:
            leaves[position] = _Differing(name, ", ".join(map(_short, values[:2])))
        else:
            follows[position] = place
            notes.append(f'"{name}" of the batch is taken for the size of "{names[place[0]]}" in dimension {place[1]}, as it is in all batches')
    return leaves, follows, notes
