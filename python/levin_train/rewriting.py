"""What is changed in the graph of a step before it is compiled."""

import operator
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from levin_train import grouped
from levin_train.errors import calling_line, refuse

_aten = torch.ops.aten
_WITH_ALPHA = (_aten.add.Tensor, _aten.add_.Tensor, _aten.sub.Tensor, _aten.sub_.Tensor)


def rewrite(step, module):
    """Makes of a step's graph, which does the same, one that Inductor and levin take."""
    module.graph.eliminate_dead_code()
    _replace_operators(step, module)
    _write_alpha_out(module)
    _fold_powers(module)
    _draw_by_size(module)
    _open_views(module)
    _pad_parts(module)
    _stack_parts(module)


def _write_alpha_out(module):
    """a + alpha * b instead of add(a, b, alpha): Inductor makes addmm(a, …) of add(a, mm(…), alpha), and loses alpha."""
    for node in list(module.graph.nodes):
        if node.target in _WITH_ALPHA and "alpha" in node.kwargs:
            other, alpha = node.args[1], node.kwargs["alpha"]
            with module.graph.inserting_before(node):
                scaled = module.graph.call_function(_aten.mul.Scalar, (other, alpha)) if isinstance(other, torch.fx.Node) else other * alpha
            node.args, node.kwargs = (node.args[0], scaled), {}
    module.recompile()


def _fold_powers(module):
    """A number instead of a power of a number, as the variance of Normal(0.0, 1.0): Inductor cannot lower a power of 1."""
    for node in module.graph.nodes:
        base = _number(module, node.args[0]) if node.target is _aten.pow.Tensor_Scalar and not isinstance(node.args[1], torch.fx.Node) else None
        if base is not None:
            power = base.pow(node.args[1])
            node.target, node.args = _aten.full.default, ([], power.item())
            node.kwargs = {"dtype": power.dtype, "device": power.device, "pin_memory": False}
    module.recompile()


def _number(module, node):
    """The tensor without dimensions that a node makes of a number of Python; None of another node."""
    if node.target is _aten.full.default and not node.args[0]:
        return node.target(*node.args, **node.kwargs)
    source = node.args[0] if node.target is _aten.lift_fresh_copy.default else node
    constant = getattr(module, source.target) if source.op == "get_attr" else None
    return constant if constant is not None and constant.dim() == 0 else None


_DRAWN_LIKE = {_aten.rand_like.default: _aten.rand.default, _aten.randn_like.default: _aten.randn.default}


def _draw_by_size(module):
    """randn(size) instead of randn_like(x): it draws in the order in which the numbers of x lie in memory, which Inductor may choose anew."""
    for node in list(module.graph.nodes):
        value = node.meta.get("val") if node.target in _DRAWN_LIKE else None
        if value is None or not value.is_contiguous() or set(node.kwargs) - {"dtype", "device", "layout", "pin_memory", "memory_format"}:
            continue
        with module.graph.inserting_before(node):
            sizes = [size if isinstance(size, int) else module.graph.call_function(_aten.sym_size.int, (node.args[0], axis)) for axis, size in enumerate(value.shape)]
        node.target, node.args = _DRAWN_LIKE[node.target], (sizes,)
        node.kwargs = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
    module.recompile()


_OPERATORS = ("aten", "prims", "prim", "levin")


def _replace_operators(step, module):
    """Puts levin's own operators in the place of those that a library has written in Python. Refuses others: a package has torch's alone."""
    for node in module.graph.nodes:
        name = node.target.name().rsplit(".", 1)[0] if isinstance(node.target, torch._ops.OpOverload) else ""
        if name in grouped.SAME:
            node.target = grouped.SAME[name]
        elif name and name.split("::")[0] not in _OPERATORS:
            with _Calls(node.target) as calls:
                step.probe(step.layout.tensors)
            refuse(f"{step.name} calls the operator {name}, which is not torch's own and is not there when levin trains",
                   "Compute it with torch's functions", calls.line or step.where)
    module.recompile()


class _Calls(TorchDispatchMode):
    """Sees from which line of the user an operator is called."""

    def __init__(self, operator):
        super().__init__()
        self._operator, self.line = operator, ""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is self._operator:
            self.line = self.line or calling_line()
        return function(*args, **(kwargs or {}))


def _open_views(module):
    """reshape() instead of view(): Inductor decomposes operations into others, which give other strides, so that a view may need a copy."""
    for node in module.graph.nodes:
        if node.target is _aten.view.default:
            node.target = _aten.reshape.default
    module.recompile()


def _pad_parts(module):
    """pad() instead of the gradient of a part of an open dimension, x[1:] or x[-3:]: where the part begins is a number then, or the rest of
    its size, and no bound that Inductor cannot compare."""
    for node in list(module.graph.nodes):
        if node.target is not _aten.slice_backward.default:
            continue
        gradient, sizes, dim, start, end, step = node.args
        dim %= len(sizes)
        from_end = isinstance(end, int) and (end < 0 or end == sys.maxsize)
        if step != 1 or not isinstance(sizes[dim], torch.fx.Node) or not isinstance(start, int) or start < 0 and not from_end:
            continue
        with module.graph.inserting_before(node):
            own = module.graph.call_function(_aten.sym_size.int, (gradient, dim))
            rest = module.graph.call_function(operator.sub, (sizes[dim], own))
            known = start if start >= 0 else 0 if end == sys.maxsize else -end
            other = module.graph.call_function(operator.sub, (rest, known))
            before, after = (known, other) if start >= 0 else (other, known)
            padding = [0, 0] * (len(sizes) - 1 - dim) + [before, after]
            padded = module.graph.call_function(_aten.constant_pad_nd.default, (gradient, padding, 0))
        padded.meta = dict(node.meta)
        node.replace_all_uses_with(padded)
        module.graph.erase_node(node)
    module.recompile()


def _stack_parts(module):
    """stack(parts) instead of the sum of tensors that are zero but for a part each, as the gradients of x[0], x[1] and x[2] give of
    x: Inductor makes of the sum a loop that decides on each element."""
    def leaves_of(node):
        if node.target is not _aten.add.Tensor or node.kwargs:
            return [node]
        return [leaf for part in node.args for leaf in (leaves_of(part) if isinstance(part, torch.fx.Node) else [None])]

    def whole(leaves):
        if any(leaf is None or leaf.target is not _aten.select_backward.default for leaf in leaves):
            return False
        _, sizes, dim, _ = leaves[0].args
        return all(leaf.args[1:3] == (sizes, dim) for leaf in leaves) and \
            sorted(leaf.args[3] for leaf in leaves) == list(range(sizes[dim] if isinstance(sizes[dim], int) else 0))

    for node in reversed(list(module.graph.nodes)):
        leaves = leaves_of(node)
        if len(leaves) > 1 and whole(leaves):
            parts = [leaf.args[0] for leaf in sorted(leaves, key=lambda leaf: leaf.args[3])]
            with module.graph.inserting_before(node):
                stacked = module.graph.call_function(_aten.stack.default, (parts, leaves[0].args[2]))
            stacked.meta = dict(node.meta)
            node.replace_all_uses_with(stacked)
    module.graph.eliminate_dead_code()
    module.recompile()
