"""Python's numbers in a step: those that a run changes, which are computed with as tensors, and those that a package does not have.

`self.global_step`, `batch_idx` and `loss.item()` are a Number: a tensor of one value that computes as Python's int or float would.
The learning rate, the time and self.trainer's values are Unknown: a step may log them, and may not compute with them.
"""

import math
import operator

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from levin_train.errors import refuse

UNKNOWN_TEXT = "…"  # in a text, for what is Unknown
_TYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}
_REFLECTED = {"add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "floordiv": operator.floordiv,
              "mod": operator.mod, "pow": operator.pow}
_COMPARED = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne}


def _plain(tensor):
    """As Python's number of this value: of 64 bits."""
    wanted = torch.bool if tensor.dtype == torch.bool else torch.float64 if tensor.is_floating_point() else torch.int64
    return tensor.detach().reshape(()).to(wanted)


class Number:
    """A number whose value a run changes. `asked`: what answers for it: decide(tensor), require(condition, else what), shown(tensor), read(how, tensor) and, where a
    function takes only a number of Python, argument(function's name, tensor); and takes what it is computed with: met."""

    def __init__(self, tensor, asked):
        self.tensor = _plain(tensor)
        self._asked = asked

    def _like(self, tensor):
        return Number(tensor, self._asked)

    def beside(self, tensor):
        """As an operand next to a tensor, of the type with which PyTorch computes there with a number of Python."""
        kinds = (torch.bool, torch.int64, torch.float64)
        of_tensor = torch.bool if tensor.dtype == torch.bool else torch.int64 if not (tensor.is_floating_point() or tensor.is_complex()) else torch.float64
        if kinds.index(self.tensor.dtype) <= kinds.index(of_tensor):
            return self.tensor.to(tensor.dtype)
        return self.tensor.to(torch.get_default_dtype() if self.tensor.dtype == torch.float64 else torch.int64)

    def alone(self):
        """As a tensor that is made of it."""
        return self.tensor.to(torch.get_default_dtype()) if self.tensor.dtype == torch.float64 else self.tensor

    def _with(self, function, other, reflected=False):
        if isinstance(other, torch.Tensor):
            return function(other, self.beside(other)) if reflected else function(self.beside(other), other)
        whole = function is operator.pow and not reflected and not isinstance(other, Number) and isinstance(other, int) and other >= 0
        if isinstance(other, Number):
            other = other.tensor
        elif isinstance(other, (torch.SymInt, torch.SymFloat)):  # a size
            other = torch.scalar_tensor(other, dtype=torch.int64 if isinstance(other, torch.SymInt) else torch.float64)
        elif isinstance(other, (bool, int, float)):
            self._asked.met.add(other)
            other = torch.scalar_tensor(other, dtype=next(kind for of, kind in _TYPES.items() if isinstance(other, of)))
        else:
            return NotImplemented
        pair = [other, self.tensor] if reflected else [self.tensor, other]
        if function in _REFLECTED.values():  # Python's bool counts as an int, and its power may be a fraction
            pair = [each.to(torch.int64) if each.dtype == torch.bool else each for each in pair]
        if function is operator.pow and not whole:
            pair = [each.to(torch.float64) for each in pair]
        return self._like(function(*pair))

    def _counted(self):
        return self.tensor.to(torch.int64) if self.tensor.dtype == torch.bool else self.tensor

    def __neg__(self):
        return self._like(-self._counted())

    def __pos__(self):
        return self

    def __abs__(self):
        return self._like(self._counted().abs())

    def __round__(self, digits=None):
        rounded = torch.round(self.tensor.double(), decimals=digits or 0)
        return self._like(rounded if digits is not None else rounded.to(torch.int64))

    def __floor__(self):
        return self._like(self.tensor.double().floor().to(torch.int64))

    def __ceil__(self):
        return self._like(self.tensor.double().ceil().to(torch.int64))

    def __trunc__(self):
        return self._like(self.tensor.double().trunc().to(torch.int64))

    def _within(self, size):
        """As an index. On a way of the step that is not taken it may be beyond the end, which is no error then."""
        self._asked.require((self.tensor >= -size) & (self.tensor < size), f"index is out of bounds for a dimension of size {size}")
        return self.tensor.clamp(-size, size - 1)

    def to_float(self):
        """What float() makes of it."""
        return self._like(self.tensor.to(torch.float64))

    def __bool__(self):
        return self._asked.decide(self.tensor, noted=True)

    def __format__(self, spec):
        return format(self._asked.shown(self.tensor), spec)

    def __str__(self):
        return str(self._asked.shown(self.tensor))

    __repr__ = __str__

    def __hash__(self):
        self._asked.read("__hash__", self.tensor)

    def __float__(self):
        self._asked.read("__float__", self.tensor)

    def __int__(self):
        return self._asked.read("__int__", self.tensor)

    def __index__(self):
        return self._asked.read("__index__", self.tensor)

    def __array__(self, *_, **__):
        self._asked.read("__array__", self.tensor)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        function = _functions().get(ufunc.__name__)
        if method != "__call__" or options or function is None:
            self.__array__()
        return function(*inputs)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"a number has no attribute '{name}'")

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in (torch.Tensor.__getitem__, torch.Tensor.__setitem__):
            chosen = _part(args[0], args[1]) if function == torch.Tensor.__getitem__ else None
            if chosen is not None:
                return chosen
            for number in numbers_in(args[1]):
                number.__index__()
        beside = next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)), None)
        given, named = pytree.tree_map(lambda leaf: leaf if not isinstance(leaf, Number) else
                                       leaf.alone() if beside is None else leaf.beside(beside), (args, kwargs))
        try:
            return function(*given, **named)
        except (TypeError, GuardOnDataDependentSymNode):  # where it takes only a number of Python, such as a size
            name = getattr(function, "__name__", "the function")
            given, named = pytree.tree_map(lambda leaf: leaf._asked.argument(name, leaf.tensor) if isinstance(leaf, Number) else leaf, (args, kwargs))
        return function(*given, **named)


def _part(tensor, index):
    """tensor[…, number, …], by the number's tensor: the value itself would be fixed. None where there is no
    number, or more than whole numbers and slices."""
    parts = index if isinstance(index, tuple) else (index,)
    chosen = {position: part._within(tensor.shape[position]) for position, part in enumerate(parts)
              if isinstance(part, Number) and part.tensor.dtype == torch.int64 and position < tensor.dim()}
    if chosen:
        chosen |= {position: torch.scalar_tensor(part, dtype=torch.int64) for position, part in enumerate(parts) if type(part) is int}
    others = [part for position, part in enumerate(parts) if position not in chosen]
    if not chosen or not all(isinstance(part, slice) and not numbers_in([part.start, part.stop, part.step]) for part in others):
        return None
    sliced = tensor[tuple(slice(None) if position in chosen else part for position, part in enumerate(parts))]
    return torch.ops.aten.index.Tensor(sliced, [chosen.get(position) for position in range(len(parts))])


def _binary(function, reflected):
    return lambda self, other: self._with(function, other, reflected)


for _name, _operator in {**_REFLECTED, **_COMPARED}.items():
    setattr(Number, f"__{_name}__", _binary(_operator, False))
    if _name in _REFLECTED:
        setattr(Number, f"__r{_name}__", _binary(_operator, True))


def numbers_in(values):
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, Number)]


def with_tensors(values):
    """The same values, with tensors for the numbers."""
    return pytree.tree_map(lambda leaf: leaf.alone() if isinstance(leaf, Number) else leaf, values)


def extreme(name):
    """min() or max() of Python, which also takes numbers of the run and tensors of one value."""
    builtin, of_two = (min, torch.minimum) if name == "min" else (max, torch.maximum)

    def chosen(*values, **options):
        given = list(values[0]) if len(values) == 1 and isinstance(values[0], (list, tuple)) else values
        tensors = [value for value in given if isinstance(value, torch.Tensor) and value.dim() == 0]
        numbers = [value for value in given if isinstance(value, Number)]
        if len(given) < 2 or options or not (tensors or numbers):
            return builtin(*values, **options)
        if not tensors:
            parts = [value.tensor if isinstance(value, Number) else torch.scalar_tensor(value, dtype=_TYPES[type(value)]) for value in given]
        else:
            parts = [value.beside(tensors[0]) if isinstance(value, Number) else torch.as_tensor(value) for value in given]
        result = parts[0]
        for part in parts[1:]:
            kind = torch.promote_types(result.dtype, part.dtype)
            result = of_two(*torch.broadcast_tensors(result.to(kind), part.to(kind)))
        return result if tensors else numbers[0]._like(result)

    chosen.builtin = builtin
    return chosen


_OF_TORCH = {name: getattr(torch, name) for name in ("cos", "sin", "tan", "acos", "asin", "atan", "cosh", "sinh", "tanh", "exp", "log", "log2",
                                                     "log10", "log1p", "expm1", "sqrt", "erf", "erfc", "lgamma")}
_SPECIAL = {"pow": operator.pow, "fabs": abs, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "absolute": abs}


def _single(function):
    def computed(value, *others):
        if others:  # math.log(x, base)
            return computed(value) / computed(others[0]) if isinstance(others[0], Number) else computed(value) / math.log(others[0])
        return value._like(function(value.tensor.double()))

    return computed


def _functions():
    """Functions of a Number, by the names that math and NumPy have for them."""
    found = {name: _single(function) for name, function in _OF_TORCH.items()}
    return {**found, **_SPECIAL, "minimum": extreme("min"), "maximum": extreme("max"), "add": operator.add, "subtract": operator.sub,
            "multiply": operator.mul, "divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod,
            "power": operator.pow, "negative": operator.neg, "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
            "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne}


def of_math(name, number_of):
    """A function of math that also takes numbers of the run, and what `number_of` makes of a tensor of one value."""
    original, ours = getattr(math, name), _functions().get(name)

    def function(*values):
        values = [number_of(value) if isinstance(value, torch.Tensor) and value.numel() == 1 else value for value in values]
        if not any(isinstance(value, Number) for value in values):
            return original(*values)
        if ours is None or not isinstance(values[0], Number):
            refuse(f"math.{name}() is given a number of the run", "Use torch's function of that name, on torch.tensor(number)")
        return ours(*values)

    return function


class Unknown:
    """A value that a package does not have. `what`: its name in messages; `decide`: called where a condition is made of it."""

    def __init__(self, what, advice, decide):
        object.__setattr__(self, "_levin", (what, advice, decide))

    def _refused(self, does):
        what, advice, _ = self._levin
        refuse(f"the module {does} {what}, which a package does not have", advice)

    def _part(self, suffix):
        what, advice, decide = self._levin
        return type(self)(what + suffix, advice, decide)

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self._part(f".{name}")

    def __getitem__(self, key):
        return self._part(f"[{key!r}]")

    def __setattr__(self, name, value):
        self._part(f".{name}")._refused("sets")

    def __setitem__(self, key, value):
        self._part(f"[{key!r}]")._refused("sets")

    def __call__(self, *_, **__):
        self._part("()")._refused("calls")

    def __bool__(self):
        what, advice, decide = self._levin
        return decide(f"the module decides on {what}, which a package does not have", advice)

    def _computed(self, *others):
        if any(isinstance(other, torch.Tensor) for other in others):
            self._read()
        return self

    def _compared(self, other):
        return self

    def __format__(self, spec):
        return UNKNOWN_TEXT

    def __str__(self):
        return UNKNOWN_TEXT

    __repr__ = __str__

    def __hash__(self):
        return id(self)

    def _read(self, *_, **__):
        self._refused("computes with")

    __float__ = __int__ = __index__ = __iter__ = __len__ = __array__ = __fspath__ = __contains__ = _read
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared
    __neg__ = __pos__ = __abs__ = __round__ = __floor__ = __ceil__ = __trunc__ = _computed

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        next(leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Unknown))._read()


for _name in _REFLECTED:
    for _prefix in ("__", "__r"):
        setattr(Unknown, f"{_prefix}{_name}__", Unknown._computed)
