"""How many rows a step takes by their values, as x[mask] does: a branch on that number is a condition of the package.

    rows = (labels >= 0).nonzero()
    if len(rows) > 0: …

The run with values shows the number, and the graph, which has none, goes the same way.
"""

import sympy
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from levin_train import torch_patches
from levin_train.errors import AnotherSource, is_users, shown_path

_OF_SIZES = ("/torch/fx/", "/torch/__init__.py", "/torch/utils/_stats.py")
_COMPARISONS = {sympy.Eq: torch.eq, sympy.Ne: torch.ne, sympy.Lt: torch.lt, sympy.Le: torch.le, sympy.Gt: torch.gt, sympy.Ge: torch.ge}


def _shapes(result):
    return [tuple(tensor.shape) for tensor in (result if isinstance(result, (list, tuple)) else [result])]


def _counted(function, args):
    """How many rows are taken, without taking them, or None."""
    if function is torch.ops.aten.nonzero.default:
        return (args[0] != 0).sum()
    masks = [index for index in args[1] if index is not None and index.dtype == torch.bool] if function is torch.ops.aten.index.Tensor else []
    return masks[0].sum() if len(masks) == 1 else None


class Counts(TorchDispatchMode):
    """While it is active: keeps the shapes of what operators give whose size comes from data. `earlier`: those of the run with values."""

    def __init__(self, earlier=None):
        super().__init__()
        self.found = []
        self.sources = ()  # names of the modules of Python in which len() gives a size
        self._earlier = earlier
        self._known = {}  # symbol: (its value in the run with values, a function that gives it as a tensor)
        self._decided = {}  # condition: (answer, line)

    def add_sizes(self, tensors):
        """Sizes of a batch are known, too."""
        for tensor in tensors:
            self._add(tensor, [getattr(getattr(size, "node", None), "hint", None) for size in tensor.shape])

    def _add(self, tensor, values, count=None):
        for axis, value in enumerate(values):
            symbol = getattr(getattr(tensor.shape[axis], "node", None), "expr", None)
            if isinstance(symbol, sympy.Symbol) and value is not None:
                known = (lambda: count) if count is not None else lambda axis=axis: torch.scalar_tensor(tensor.shape[axis], dtype=torch.int64)
                self._known.setdefault(symbol, (int(value), known))

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if torch.Tag.dynamic_output_shape in function.tags:
            self.found.append(_shapes(result))
            if self._earlier is not None and len(self.found) <= len(self._earlier):
                for tensor, shape in zip(result if isinstance(result, (list, tuple)) else [result], self._earlier[len(self.found) - 1]):
                    self._add(tensor, shape, _counted(function, args))
        return result

    def answering(self):
        """While it lasts, questions about sizes are answered."""
        return torch_patches.sizes_of_data(self._answer, self._asks_for_number)

    def _asks_for_number(self, frame):
        """Where a size becomes a number of Python, in a module in which len() and int() may be other functions, and are not yet."""
        while frame is not None and any(part in frame.f_code.co_filename for part in _OF_SIZES):
            frame = frame.f_back
        if frame is not None and is_users(frame.f_code.co_filename) and frame.f_globals.get("__name__") not in self.sources:
            raise AnotherSource(frame.f_globals.get("__name__"))

    def _answer(self, asked, frame):
        """What a question about sizes is answered, which becomes a condition. None where it is not known."""
        if self._earlier is None or type(asked) not in _COMPARISONS or not asked.free_symbols <= set(self._known):
            return None
        holds = asked.xreplace({symbol: self._known[symbol][0] for symbol in asked.free_symbols})
        if holds not in (sympy.true, sympy.false):
            return None
        while frame is not None and not is_users(frame.f_code.co_filename):
            frame = frame.f_back
        line = f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""
        return self._decided.setdefault(asked, (bool(holds), line))[0]

    def conditions(self):
        """What was answered: the answers, their lines, and tensors that say what holds for a batch."""
        found = []
        for asked, (answer, line) in self._decided.items():
            sizes = {symbol: self._known[symbol][1]() for symbol in asked.free_symbols}
            found.append((answer, line, _COMPARISONS[type(asked)](sympy_interp(PythonReferenceAnalysis, sizes, asked.lhs - asked.rhs), 0)))
        return found
