"""What a step returns, as tensors by name."""

import torch
from torch.utils import _pytree as pytree

from levin_train.errors import refuse
from levin_train.metric_objects import Updated
from levin_train.python_numbers import Number
from levin_train.structure import named_leaves
from levin_train.values import Values


def no_tensors_of(result):
    """The names of what a step returns that is no tensor, and that a package does not give."""
    kept = pytree.tree_map(lambda leaf: 0 if isinstance(leaf, (Values, Number)) else torch.zeros(()) if isinstance(leaf, Updated) else leaf, result)
    return [name for name, leaf in named_leaves(kept, "output")[0] if not (leaf is None or isinstance(leaf, torch.Tensor)) and name != "loss"]


def outputs_of(result, training, where):
    """The loss, and what else a step returns, by name."""
    result = pytree.tree_map(lambda leaf: leaf.value() if isinstance(leaf, Updated) else None if isinstance(leaf, (Values, Number)) else leaf, result)
    if result is None and training:
        refuse("the step gives no loss for the example batch", "Give export() a batch that has one. A batch without one ends a run: for one that does "
               "not count, return its loss times the condition, as loss * (labels.sum() > 0)", where)
    if training or isinstance(result, dict) and "loss" in result:
        loss = result["loss"] if isinstance(result, dict) and "loss" in result else result
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            given = f"a tensor of {list(loss.shape)}" if isinstance(loss, torch.Tensor) else f"a {type(loss).__name__}"
            refuse(f"the step's loss is {given}, and not a tensor of one value", "Return one, as .mean() gives it, or a dict with it: {\"loss\": loss, …}", where)
        rest = {name: value for name, value in result.items() if name != "loss"} if isinstance(result, dict) else {}
        return loss, [pair for pair in named_leaves(rest, "output")[0] if isinstance(pair[1], torch.Tensor)]
    return None, [pair for pair in named_leaves(result, "output")[0] if isinstance(pair[1], torch.Tensor)]
