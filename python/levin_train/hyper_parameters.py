"""What save_hyperparameters() has stored of a module, as a package holds it."""

import enum
import math
import os

import torch

_DEEPEST = 100  # lists and maps in one another; what holds itself has no end


class _Unwritable(Exception):
    """A value that a package cannot hold: where it stands, and what it is."""


def hyper_parameters(module):
    """The values that a package can hold, by name, and a note for each of those that it cannot.

    Numbers, texts, lists and maps are held, and what is near to these: a tuple is a list, a path a text, a tensor of one element or a
    number of NumPy that number, an enum its value.
    """
    held, notes = {}, []
    for name, value in dict(getattr(module, "hparams", None) or {}).items():
        try:
            held[_key(name, "hparams")] = _held(value, str(name), 0)
        except _Unwritable as error:
            notes.append(f"the hyper-parameter {error}: it is left out of the package, which holds numbers, texts, lists and maps. "
                         f'self.save_hyperparameters(ignore=["{name}"]) leaves it out without a note')
    return held, notes


def _key(name, where):
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise _Unwritable(f"{where} has the key {name!r}")
    name = _text(str(name), where)
    return "$" + name if name.startswith("$") else name  # what begins with one "$" is levin's own


def _text(value, where):
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Unwritable(f"{where} is a text that UTF-8 does not have") from None
    return value


def _number(value, where):
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return {"$float": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    if not -2**63 <= value < 2**63:
        raise _Unwritable(f"{where} is {value}, an integer of more than 64 bits")
    return value


def _held(value, where, depth):
    if depth > _DEEPEST:
        raise _Unwritable(f"{where.split('[')[0]} has more than {_DEEPEST} lists or maps in one another")
    if isinstance(value, enum.Enum):
        value = value.value
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):  # of torch and of NumPy
        value = value.item()
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return _number(int(value), where)
    if isinstance(value, float):
        return _number(float(value), where)
    if isinstance(value, (str, os.PathLike)):
        return _text(str(os.fspath(value)), where)
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, dict):
        return {_key(name, where): _held(part, f"{where}[{name!r}]", depth + 1) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_held(part, f"{where}[{index}]", depth + 1) for index, part in enumerate(value)]
    raise _Unwritable(f"{where} is of {type(value).__module__}.{type(value).__qualname__}")
