"""Batches as lists of tensors with names, and batches of other sizes made of one."""

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree as pytree

from levin_train.errors import ExportError

SUPPORTED = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
             torch.uint8, torch.bool)


def _part(key):
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def named_leaves(value, alone="input"):
    """What a nested structure holds, by names such as "image" or "a.0", and its structure. `alone`: the name of a lone tensor."""
    pairs, structure = pytree.tree_flatten_with_path(value)
    return [(".".join(_part(key) for key in path) or alone, leaf) for path, leaf in pairs], structure


@dataclasses.dataclass
class BatchLayout:
    """The tensors of a batch, which of their dimensions vary, and what else is in it."""

    names: list[str]  # of the tensors
    tensors: list[torch.Tensor]
    dimensions: list[list[Any]]  # of each tensor: the name of a dimension that varies, or a size
    constants: dict[str, Any]
    _structure: Any
    _positions: list[int]
    _leaves: list[Any]

    def rebuild(self, tensors):
        leaves = list(self._leaves)
        for position, tensor in zip(self._positions, tensors):
            leaves[position] = tensor
        return pytree.tree_unflatten(leaves, self._structure)

    def sizes(self, tensors=None):
        """The size of each dimension that varies, in the example or in other tensors."""
        return {name: tensor.shape[axis] for tensor, names in zip(tensors or self.tensors, self.dimensions)
                for axis, name in enumerate(names) if isinstance(name, str)}

    def resized(self, sizes, seed=0):
        """The example's tensors with other sizes: its slices drawn again, alike for tensors that share a dimension."""
        generator = torch.Generator().manual_seed(seed)
        old = self.sizes()
        picks = {name: torch.arange(size) if size == old[name] else torch.randint(old[name], (size,), generator=generator)
                 for name, size in sizes.items()}
        tensors = []
        for tensor, names in zip(self.tensors, self.dimensions):
            for axis, name in enumerate(names):
                if name in picks:
                    tensor = tensor.index_select(axis, picks[name].to(tensor.device))
            tensors.append(tensor.contiguous())
        return tensors


def layout_of(batch, others, dynamic):
    """How a batch is laid out. Dimensions that differ between `batch` and `others` vary, the first one as "batch", and those
    that `dynamic` names: {"tokens": {1: "time"}}. Raises ExportError for a batch of another structure, or without tensors."""
    leaves, structure = named_leaves(batch)
    positions = [index for index, (_, leaf) in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if not positions:
        raise ExportError(f"The batch has no tensor: it is a {type(batch).__name__}. Give export() a batch as a loader gives it.")
    tensors = [leaves[index][1].detach() for index in positions]
    names = [leaves[index][0] for index in positions]
    for name, tensor in zip(names, tensors):
        if tensor.dtype not in SUPPORTED or tensor.layout != torch.strided:
            raise ExportError(f'"{name}" of the batch is a tensor of {tensor.dtype} ({tensor.layout}), which a package does not take. '
                              "Convert it in the dataset.")
    dimensions = [list(tensor.shape) for tensor in tensors]
    batch_size = next((tensor.shape[0] for tensor in tensors if tensor.dim() > 0), None)
    for tensor, found in zip(tensors, dimensions):
        if tensor.dim() > 0 and tensor.shape[0] == batch_size:
            found[0] = "batch"
    _compare(names, tensors, dimensions, others, structure)
    for name, axes in (dynamic or {}).items():
        if name not in names:
            raise ExportError(f'dynamic names "{name}", which the batch does not have. It has: {", ".join(names)}.')
        for axis, dimension in axes.items():
            dimensions[names.index(name)][axis] = dimension
    constants = {name: leaf for name, leaf in leaves if not isinstance(leaf, torch.Tensor) and leaf is not None}
    return BatchLayout(names, tensors, dimensions, constants, structure, positions, [leaf for _, leaf in leaves])


def _compare(names, tensors, dimensions, others, structure):
    found = {}
    for other in others:
        leaves, other_structure = named_leaves(other)
        if other_structure != structure:
            raise ExportError("The example batches differ in their structure. A package takes batches of one structure.")
        other_tensors = [leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor)]
        sizes = [next((tensor.shape[0] for tensor in those if tensor.dim() > 0), None) for those in (tensors, other_tensors)]
        for index, tensor in enumerate(other_tensors):
            if tensor.dim() != tensors[index].dim() or tensor.dtype != tensors[index].dtype:
                raise ExportError(f'"{names[index]}" has {tensor.dim()} dimensions of {tensor.dtype} in one example batch, and '
                                  f"{tensors[index].dim()} of {tensors[index].dtype} in another. Give it one type.")
            for axis, (size, other_size) in enumerate(zip(tensors[index].shape, tensor.shape)):
                name = dimensions[index][axis]
                if name == "batch" and size == other_size and sizes[0] != sizes[1]:
                    dimensions[index][axis] = size
                elif name != "batch" and size != other_size:
                    dimensions[index][axis] = found.setdefault((size, other_size), f"{names[index]}_{axis}".replace(".", "_"))
