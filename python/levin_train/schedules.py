"""Functions of Python that give a schedule's factor, as expressions of levin: `lambda epoch: 0.95 ** epoch` is "0.95 ** epoch".

The function is called with a number that keeps what is computed with it. Where it decides on that number, it is called with others until it is
known where it goes another way, and the expression is the sum of its parts. That is compared with the function itself.
"""

import builtins
import functools
import math
import types

from levin_train.errors import ExportError

_LONGEST = 1000  # characters that levin takes
_COMPARED = (*range(300), *(step * factor for factor in (500, 10**4, 10**6) for step in (1, 1.5, 2, 3, 7)))
_NAMES = {"min": min, "max": max, "sqrt": math.sqrt, "exp": math.exp, "cos": math.cos, "pi": math.pi}


class NotAnExpression(Exception):
    """What a function does that no expression of levin says."""


class Term:
    """The schedule's step, or what is computed of it: `text` says how, and `value` is what it is at this step. `met`: takes the numbers that
    it is compared with."""

    def __init__(self, text, value, met):
        self.text, self.value, self._met = text, value, met

    def _made(self, text, value):
        return Term(text, value, self._met)

    def _compared(self, other, holds):
        self._met.add(other.value if isinstance(other, Term) else other)
        return holds

    def _whole(self):
        if self.value < 0:
            raise NotAnExpression("it cuts a number below 0 to a whole one")
        return self._made(f"({self.text} // 1)", int(self.value))

    def __neg__(self):
        return self._made(f"(-{self.text})", -self.value)

    def __pos__(self):
        return self

    def __abs__(self):
        return self._made(f"max({self.text}, -{self.text})", abs(self.value))

    def __round__(self, digits=None):
        if digits is not None:
            raise NotAnExpression("it rounds to digits")
        return (self + 0.5)._whole()

    def __floor__(self):
        return self._made(f"({self.text} // 1)", math.floor(self.value))

    def __ceil__(self):
        return self._made(f"(-(-{self.text} // 1))", math.ceil(self.value))

    def __trunc__(self):
        return self._whole()

    def __int__(self):
        raise NotAnExpression("it makes a Python number of it")

    __float__ = __index__ = __int__

    def __getattr__(self, name):
        """NumPy's functions call the method of their name."""
        if name not in _FUNCTIONS:
            raise AttributeError(name)
        return lambda: _FUNCTIONS[name](self)


def _text(value):
    if isinstance(value, Term):
        return value.text
    if isinstance(value, (bool, int, float)) or hasattr(value, "item"):
        return repr(float(value)) if float(value) >= 0 else f"({float(value)!r})"
    raise NotAnExpression(f"it computes with a {type(value).__name__}")


def _value(value):
    return value.value if isinstance(value, Term) else float(value)


def _operator(sign, of, reflected):
    def method(self, other):
        left, right = (other, self) if reflected else (self, other)
        text = f"({_text(left)} {sign} {_text(right)})"
        return self._made(text, of(_value(left), _value(right)))

    return method


for _name, _sign, _of in (("add", "+", lambda a, b: a + b), ("sub", "-", lambda a, b: a - b), ("mul", "*", lambda a, b: a * b), ("truediv", "/", lambda a, b: a / b),
                          ("floordiv", "//", lambda a, b: a // b), ("mod", "%", lambda a, b: a % b), ("pow", "**", lambda a, b: a**b)):
    setattr(Term, f"__{_name}__", _operator(_sign, _of, False))
    setattr(Term, f"__r{_name}__", _operator(_sign, _of, True))
for _name, _of in (("lt", lambda a, b: a < b), ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b), ("ge", lambda a, b: a >= b), ("eq", lambda a, b: a == b),
                   ("ne", lambda a, b: a != b)):
    setattr(Term, f"__{_name}__", lambda self, other, _of=_of: self._compared(other, _of(self.value, _value(other))))
Term.__bool__ = lambda self: self._compared(0, bool(self.value))
Term.__hash__ = None


def _of_one(name, of):
    return lambda term: term._made(f"{name}({term.text})", of(term.value))


_FUNCTIONS = {"sqrt": _of_one("sqrt", math.sqrt), "exp": _of_one("exp", math.exp), "cos": _of_one("cos", math.cos),
              "sin": lambda term: term._made(f"cos({term.text} - pi / 2)", math.sin(term.value)), "floor": math.floor, "ceil": math.ceil}


def _extreme(name, of):
    return lambda *terms: next(term for term in terms if isinstance(term, Term))._made(f"{name}({', '.join(map(_text, terms))})", of(map(_value, terms)))


def _unknown(name):
    def refused(*_):
        raise NotAnExpression(f"it calls math.{name}()")

    return refused


_OF_MATH = {**{name: _unknown(name) for name, value in vars(math).items() if callable(value)}, **_FUNCTIONS, "pow": lambda base, power: base**power, "fabs": abs, "trunc": lambda term: term._whole()}
_OF_BUILTINS = {"min": _extreme("min", min), "max": _extreme("max", max), "float": lambda term: term, "int": lambda term: term._whole(), "pow": lambda base, power: base**power}


def _for_terms(original, ours):
    return lambda *values: ours(*values) if any(isinstance(value, Term) for value in values) else original(*values)


def _traced(function, done=None):
    """A copy of a function, whose calls of int(), float() and math take terms."""
    done = {} if done is None else done
    if isinstance(function, functools.partial):
        return functools.partial(_traced(function.func, done), *function.args, **function.keywords)
    if isinstance(function, types.MethodType):
        return types.MethodType(_traced(function.__func__, done), function.__self__)
    if not isinstance(function, types.FunctionType):
        call = getattr(type(function), "__call__", None)
        return types.MethodType(_traced(call, done), function) if isinstance(call, types.FunctionType) else function
    if id(function) in done:
        return done[id(function)]
    names = {}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, None if function.__closure__ is None else tuple(
        types.CellType(_replaced(cell.cell_contents, done)) for cell in function.__closure__))
    copy.__kwdefaults__ = function.__kwdefaults__
    done[id(function)] = copy
    names.update(function.__globals__)
    names.update({name: _replaced(names.get(name, getattr(builtins, name, None)), done) for name in function.__code__.co_names
                  if name in names or name in _OF_BUILTINS})
    return copy


def _replaced(value, done):
    if value is math:
        return types.SimpleNamespace(**{**vars(math), **{name: _for_terms(getattr(math, name), ours) for name, ours in _OF_MATH.items()}})
    for source, functions in ((math, _OF_MATH), (builtins, _OF_BUILTINS)):
        if getattr(value, "__name__", None) in functions and value is getattr(source, value.__name__, None):
            return _for_terms(value, functions[value.__name__])
    return _traced(value, done) if isinstance(value, types.FunctionType) else value


def _parts(function):
    """(first step, text) of each part of a function, in order."""
    met, known, traced = set(), {}, _traced(function)

    def text_at(step):
        if step not in known:
            known[step] = _text(traced(Term("epoch", step, met)))
        return known[step]

    tried = set()
    while len(tried) < 200:
        around = {math.floor(value) + shift for value in map(_value, met) if math.isfinite(value) for shift in (-1, 0, 1)}
        new = sorted(step for step in {0, 1, 2, 10**4, 10**6, *around} - tried if 0 <= step <= 10**9)
        if not new:
            break
        tried.update(new)
        for step in new:
            text_at(step)
    parts = [(0, text_at(0))]
    for step in sorted(tried):
        while text_at(step) != parts[-1][1]:  # by halves: the first step of the next part
            low, high = parts[-1][0], step
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if text_at(middle) == parts[-1][1] else (low, middle)
            parts.append((high, text_at(high)))
            if len(parts) > 12:
                raise NotAnExpression("it has more than 12 parts")
    return parts


def _joined(parts):
    """One expression: each part, of steps within it, times whether the step is within it."""
    if len(parts) == 1:
        return parts[0][1]
    ends = [begin for begin, _ in parts[1:]] + [None]
    terms = []
    for (begin, text), end in zip(parts, ends):
        step, factor = "epoch", []
        if begin:
            step, factor = f"max(epoch, {begin})", [f"min(1, max(0, epoch - {begin - 1}))"]
        if end is not None:
            step, factor = f"min({step}, {end - 1})", [*factor, f"min(1, max(0, {end} - epoch))"]
        inner = text.replace("epoch", step)
        if text not in ("0.0", "0"):
            terms.append(" * ".join([inner, *factor]))
    return " + ".join(terms) or "0"


def expression(function):
    """levin's expression for a function of a schedule's step. Raises NotAnExpression where there is none."""
    try:
        text = _joined(_parts(function))
        pairs = [(function(int(step)), eval(text, {"__builtins__": {}, **_NAMES, "epoch": int(step)})) for step in _COMPARED]
    except (NotAnExpression, ExportError):
        raise
    except Exception as error:
        raise NotAnExpression(f"{type(error).__name__}: {error}") from error
    text = text[1:-1] if text.startswith("(") and _closes_last(text) else text
    if len(text) > _LONGEST:
        raise NotAnExpression(f"its expression has {len(text)} characters, and levin takes {_LONGEST}")
    differs = next((step for step, (theirs, ours) in zip(_COMPARED, pairs) if abs(float(theirs) - ours) > 1e-9 * max(1.0, abs(ours))), None)
    if differs is not None:
        raise NotAnExpression(f"it gives something else at step {int(differs)} than what it computes with the step says")
    return text


def _closes_last(text):
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return index == len(text) - 1
    return False
