"""Decisions on sizes that become conditions, which the package checks: all of a step where several examples say which sizes vary, and else
those with which the user's code refuses a batch."""

import sympy
import torch
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from levin_train.branches import only_raises
from levin_train.errors import is_users, refuse, shown_path

_aten = torch.ops.aten
_COMPARISONS = {sympy.Eq: _aten.eq.Scalar, sympy.Ne: _aten.ne.Scalar, sympy.Lt: _aten.lt.Scalar, sympy.Le: _aten.le.Scalar,
                sympy.Gt: _aten.gt.Scalar, sympy.Ge: _aten.ge.Scalar}
_TRIED = (*range(2, 65), 100, 256, 1024, 4096, 10007)  # sizes with which a condition on one dimension is tried


def line_of_guard(guard):
    """The user's line that asked about a size; an empty text when torch itself did."""
    frame = guard.sloc.maybe_user_loc or guard.sloc.framework_loc
    known = frame is not None and not isinstance(frame, str) and is_users(frame.filename)
    return f"{shown_path(frame.filename)}:{frame.lineno}" if known else ""


def is_check(guard):
    """Whether the user's code refuses the other sizes itself: `assert`, or a branch that raises."""
    frame = guard.sloc.maybe_user_loc or guard.sloc.framework_loc
    return bool(line_of_guard(guard)) and only_raises(frame.filename, frame.lineno)


def add_conditions(graph):
    """Adds an output for each decision of the user's code on sizes, which says whether a batch goes the way of the examples. Of one example
    only what the code checks is such a decision. Raises ExportError when the examples go different ways."""
    layout = graph.step.layout
    places = _places(graph)
    canonical = {}  # one symbol for each name
    alike = {symbol: canonical.setdefault(name, symbol) for symbol, (name, _, _) in places.items()}
    examples = [{canonical[name]: size for name, size in layout.sizes(tensors).items() if name in canonical} for tensors in layout.examples]
    added = set()
    for guard in graph.shapes.guards:
        where, decided = line_of_guard(guard), guard.expr.xreplace(alike)
        if not layout.is_compared and not is_check(guard):
            continue
        if not where or decided in added or not decided.free_symbols <= set(alike.values()) or _always_holds(decided):
            continue
        other = next((sizes for sizes in examples if decided.xreplace(sizes) == False), None)  # noqa: E712 - sympy's false
        names = {symbol: name for name, symbol in canonical.items()}
        if other is not None:
            sizes = ", ".join(f"{names[symbol]} = {size}" for symbol, size in other.items() if symbol in decided.free_symbols)
            refuse(f"{graph.step.name} goes another way for the batch with {sizes} than for others",
                   "Do not decide on the size of a dimension that varies", where)
        if type(decided) not in _COMPARISONS:
            refuse(f"{graph.step.name} decides on sizes that vary: {decided}", "Do not decide on the size of a dimension that varies", where)
        added.add(decided)
        _add_output(graph, decided, {symbol: places[symbol] for symbol in decided.free_symbols}, where)
    graph.module.recompile()


def _places(graph):
    """Where the size of each symbol is found: the name of its dimension, the node of a tensor, and the dimension."""
    nodes = [node for node in graph.module.graph.nodes if node.op == "placeholder"]
    places = {}
    for node, tensor, entry in zip(nodes, graph.example, graph.inputs):
        for axis, name in enumerate(entry.get("shape", [])):
            symbol = getattr(getattr(tensor.shape[axis], "node", None), "_expr", None)
            if isinstance(name, str) and isinstance(symbol, sympy.Symbol):
                places.setdefault(symbol, (name, node, axis))
    return places


def _always_holds(decided):
    """Whether a condition holds for all sizes of two or more; of several dimensions it is not known."""
    symbols = decided.free_symbols
    return not symbols or len(symbols) == 1 and not any(decided.xreplace({next(iter(symbols)): size}) == False for size in _TRIED)  # noqa: E712


def _add_output(graph, decided, places, where):
    """Adds the tensor `left - right` compared with zero: of a comparison of numbers itself Inductor makes no tensor."""
    output = next(iter(reversed(graph.module.graph.nodes)))
    with graph.module.graph.inserting_before(output):
        sizes = {symbol: torch.fx.Proxy(graph.module.graph.call_function(_aten.sym_size.int, (node, axis))) for symbol, (_, node, axis) in places.items()}
        difference = sympy_interp(PythonReferenceAnalysis, sizes, decided.lhs - decided.rhs)
        value = graph.module.graph.call_function(_aten.scalar_tensor.default, (difference.node,), {"dtype": torch.int64})
        condition = graph.module.graph.call_function(_COMPARISONS[type(decided)], (value, 0))
    output.args = ((*output.args[0], condition),)
    graph.outputs.append({"kind": "condition", "taken": True, "where": where})
    graph.conditions_on_sizes += 1
