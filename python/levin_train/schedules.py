"""Functions of Python that give a schedule's factor, as expressions of levin: `lambda epoch: 0.95 ** epoch` is "0.95 ** epoch".

The function is called with a number that keeps what is computed with it. Where it decides on that number, it is called with others until it is
known where it goes another way, and the expression is the sum of its parts. That is compared with the function itself. Of a schedule of a class
of the user's the function is get_lr(), and what it gives is compared with the rates of the schedule itself, step by step.
"""

import builtins
import copy
import functools
import math
import types
import warnings

import torch

from levin_train.errors import ExportError, is_users

_LONGEST = 1000  # characters that levin takes
_COMPARED = (*range(300), *(step * factor for factor in (500, 10**4, 10**6) for step in (1, 1.5, 2, 3, 7)))
_FURTHEST = 10**9  # the last step that is looked at
_STEPPED = 10**4  # steps that a schedule of the user's class is taken through
# How such a schedule is read: levin's class, the method, and whether with initial rates of 1, whose factors are the rates themselves.
_READINGS = (("LambdaLR", "get_lr", True), ("LambdaLR", "get_lr", False), ("LambdaLR", "_get_closed_form_lr", True),
             ("LambdaLR", "_get_closed_form_lr", False), ("MultiplicativeLR", "get_lr", False))
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


def _names_in(code):
    """The names that a function reads, also in its lambdas and, before Python 3.12, in what it lists."""
    return {*code.co_names, *(name for inner in code.co_consts if isinstance(inner, types.CodeType) for name in _names_in(inner))}


def _traced(function, done=None):
    """A copy of a function, whose calls of int(), float() and math take terms."""
    done = {} if done is None else done
    if isinstance(function, functools.partial):
        return functools.partial(_traced(function.func, done), *function.args, **function.keywords)
    if isinstance(function, types.MethodType):
        return types.MethodType(_traced(function.__func__, done), _with_traced_methods(function.__self__, done))
    if not isinstance(function, types.FunctionType):
        return _with_traced_methods(function, done)
    if id(function) in done:
        return done[id(function)]
    names = {}
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, None if function.__closure__ is None else tuple(
        types.CellType(_with_traced_methods(_replaced(cell.cell_contents, done), done)) for cell in function.__closure__))
    copy.__kwdefaults__ = function.__kwdefaults__
    done[id(function)] = copy
    names.update(function.__globals__)
    names.update({name: _replaced(names.get(name, getattr(builtins, name, None)), done) for name in _names_in(function.__code__)
                  if name in names or name in _OF_BUILTINS})
    return copy


def _replaced(value, done):
    if value is math:
        return types.SimpleNamespace(**{**vars(math), **{name: _for_terms(getattr(math, name), ours) for name, ours in _OF_MATH.items()}})
    for source, functions in ((math, _OF_MATH), (builtins, _OF_BUILTINS)):
        if getattr(value, "__name__", None) in functions and value is getattr(source, value.__name__, None):
            return _for_terms(value, functions[value.__name__])
    return _traced(value, done) if isinstance(value, types.FunctionType) else value


def _with_traced_methods(value, done):
    """The same object, with the same attributes, whose methods take terms where they are of the user's class."""
    methods = {name: method for kind in reversed(type(value).__mro__) for name, method in vars(kind).items()
               if isinstance(method, types.FunctionType) and is_users(method.__code__.co_filename)}
    if not methods or not hasattr(value, "__dict__") or isinstance(value, type) or hasattr(value, "__del__"):
        return value
    if id(value) not in done:
        kind = type(value)
        bound = {name: property(lambda self, method=method: types.MethodType(_traced(method, done), self)) for name, method in methods.items()}
        done[id(value)] = same = object.__new__(type(kind)(kind.__name__, (kind,), {"__module__": kind.__module__, **bound}))
        object.__setattr__(same, "__dict__", value.__dict__)
    return done[id(value)]


def _parts(function, last):
    """(first step, text) of each part of a function, in order, up to the step `last`."""
    met, known, traced = set(), {}, _traced(function)

    def text_at(step):
        if step not in known:
            known[step] = _text(traced(Term("epoch", step, met)))
        return known[step]

    tried = set()
    while len(tried) < 200:
        around = {math.floor(value) + shift for value in map(_value, met) if math.isfinite(value) for shift in (-1, 0, 1)}
        new = sorted(step for step in {0, 1, 2, 10**4, 10**6, *around, *([last] if last < _FURTHEST else [])} - tried if 0 <= step <= last)
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


def _joined(parts, last):
    """One expression: each part, of steps within it, times whether the step is within it. The last part holds from the step `last` on."""
    ends = [begin for begin, _ in parts[1:]] + [None]
    terms = []
    for (begin, text), end in zip(parts, ends):
        step, factor = "epoch", []
        if begin:
            step, factor = f"max(epoch, {begin})", [f"min(1, max(0, epoch - {begin - 1}))"]
        if end is not None:
            step, factor = f"min({step}, {end - 1})", [*factor, f"min(1, max(0, {end} - epoch))"]
        elif last < _FURTHEST:
            step = f"min({step}, {last})"
        if text not in ("0.0", "0"):
            terms.append(" * ".join([text.replace("epoch", step), *factor]))
    return " + ".join(terms) or "0"


def _number(function, step):
    """What a function gives at a step, or None where that is no finite number: an error too, as of a list that ends."""
    try:
        number = float(function(step))
    except (NotAnExpression, ExportError):
        raise
    except Exception:
        return None
    return number if math.isfinite(number) else None


def _last(function):
    """The last step at which a function gives a number: 16 for `(1 - epoch / 16) ** 0.9`, which is complex from there on."""
    last = 0
    for step in map(int, _COMPARED):
        if _number(function, step) is not None:
            last = step
            continue
        while step - last > 1:  # by halves
            middle = (last + step) // 2
            last, step = (last, middle) if _number(function, middle) is None else (middle, step)
        return last
    return _FURTHEST


def _value_of(text, step):
    """What an expression of levin is at a step."""
    return eval(text, {"__builtins__": {}, **_NAMES, "epoch": step})


def expression(function):
    """levin's expression for a function of a schedule's step, and the step from which on it holds, as the function gives no number beyond, or
    None. Raises NotAnExpression where there is none."""
    try:
        with warnings.catch_warnings():  # NumPy's, of numbers that are none
            warnings.simplefilter("ignore")
            float(function(0)), float(function(1))  # an error here is one of the function
            last = _last(function)
            text = _joined(_parts(function, last), last)
            pairs = [(step, float(function(step)), _value_of(text, step)) for step in map(int, _COMPARED) if step <= last]
    except (NotAnExpression, ExportError):
        raise
    except Exception as error:
        raise NotAnExpression(f"{type(error).__name__}: {error}") from error
    text = text[1:-1] if text.startswith("(") and _closes_last(text) else text
    if len(text) > _LONGEST:
        raise NotAnExpression(f"its expression has {len(text)} characters, and levin takes {_LONGEST}")
    differs = next((step for step, theirs, ours in pairs if not abs(theirs - ours) <= 1e-9 * max(1.0, abs(ours))), None)
    if differs is not None:
        raise NotAnExpression(f"it gives something else at step {differs} than what it computes with the step says")
    return text, last if last < _FURTHEST else None


def _closes_last(text):
    depth = 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return index == len(text) - 1
    return False


class _Group(dict):
    """A group of an optimizer, as a schedule's method sees it. Without "lr" for one that multiplies the initial rates."""

    def __missing__(self, key):
        raise NotAnExpression("it goes on from the rate of the step before" if key == "lr" else f"it reads {key} of the optimizer's groups")


def _alone(scheduler, optimizer):
    """A copy of a schedule, for `optimizer`, that shares nothing with the run."""
    try:
        return copy.deepcopy(scheduler, {id(scheduler.optimizer): optimizer})
    except Exception as error:
        raise NotAnExpression(f"it cannot be copied: {type(error).__name__}: {error}") from error


def _others(optimizer):
    """What an optimizer's groups have besides their rates."""
    return [(key, value) for group in optimizer.param_groups for key, value in group.items() if key != "lr" and isinstance(value, (bool, int, float, tuple))]


def _rates(scheduler):
    """The rates of the groups at each step, as the schedule itself sets them from where it is, as long as they are numbers."""
    groups = [{**group, "params": [torch.zeros(1)], "lr": float(group["lr"])} for group in scheduler.optimizer.param_groups]
    stepped = _alone(scheduler, torch.optim.SGD(groups))
    found, others = [], _others(stepped.optimizer)
    while len(found) < _STEPPED:
        rates = [_number(group.get, "lr") for group in stepped.optimizer.param_groups]
        if None in rates:
            break
        found.append(rates)
        try:
            stepped.step()
        except Exception as error:
            if len(found) == 1:
                raise NotAnExpression(f"its step() fails: {type(error).__name__}: {error}") from error
            break
        if _others(stepped.optimizer) != others:
            raise NotAnExpression("it changes more of the optimizer than its rates: "
                                  + next((key for key, value in _others(stepped.optimizer) if (key, value) not in others), "its groups"))
    return found


def _factor(scheduler, group, name, method, of_one):
    """The function of the step that a method of a schedule is, as the factor of a group's rate: of the initial one for LambdaLR, else of the
    one before."""
    kept = {"lr": 1.0} if name == "MultiplicativeLR" else {}
    groups = [_Group({**{key: value for key, value in each.items() if key not in ("params", "lr")}, **kept}) for each in scheduler.optimizer.param_groups]
    stand_in = _alone(scheduler, types.SimpleNamespace(param_groups=groups))
    stand_in._get_lr_called_within_step = True
    if of_one:
        stand_in.base_lrs = [1.0 for _ in groups]
    base = 1.0 if kept else float(stand_in.base_lrs[group])

    def factor(step):
        stand_in.last_epoch, stand_in._step_count = step, step + 1
        rate = getattr(stand_in, method)()[group]
        return rate if base == 1.0 else rate / base

    return factor


def _check_rates(name, text, base, rates):
    """Raises NotAnExpression where levin's rates of a group are others than those of the schedule itself."""
    code, highest, ours = compile(text, "<expression>", "eval"), max(map(abs, rates)), base
    for step, theirs in enumerate(rates):
        if name == "LambdaLR":
            ours = base * _value_of(code, step)
        elif step > 0:
            ours *= _value_of(code, step)
        if not abs(theirs - ours) <= 1e-6 * abs(theirs) + 1e-12 * highest:
            raise NotAnExpression(f"its rate at step {step} is {theirs:.6g}, and what it computes with the step alone says {ours:.6g}")


def of_class(scheduler):
    """levin's class for a schedule of the user's class that is at its first step, and what expression() gives for each group. Raises
    NotAnExpression where its rates are no function of the step, or of the step and the rate before, that levin can write."""
    held = next((key for key, value in vars(scheduler).items() if isinstance(value, torch.nn.Module)), None)
    if held is not None:
        raise NotAnExpression(f"it has a module, {held}, on which its rates may depend")
    with warnings.catch_warnings():  # of steps of a schedule without those of its optimizer
        warnings.simplefilter("ignore")
        rates = [list(of_group) for of_group in zip(*_rates(scheduler))]
    bases = list(map(float, scheduler.base_lrs))
    if any(base == 0 and any(of_group) for base, of_group in zip(bases, rates)):
        raise NotAnExpression("the optimizer's rate is 0, of which the schedule's are no multiple. Give the optimizer another one, as lr=1")
    reason = None
    for name, method, of_one in _READINGS:
        try:
            found = [expression(_factor(scheduler, group, name, method, of_one)) for group in range(len(bases))]
            for (text, _), base, of_group in zip(found, bases, rates):
                _check_rates(name, text, base, of_group)
        except NotAnExpression as error:
            reason = reason if of_one else reason or error
        else:
            return name, found
    raise reason
