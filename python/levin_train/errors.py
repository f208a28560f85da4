"""Errors of an export, with the line of the user's code."""

import importlib.util
import os
import sys
import sysconfig
import traceback

_TORCH = importlib.util.find_spec("torch")  # which importing levin does not import
_LIBRARIES = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (getattr(_TORCH, "origin", None), __file__) if path)
_STANDARD = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep
_PACKAGES = ("/lightning/", "/pytorch_lightning/", "/lightning_utilities/", "/torchmetrics/")


class ExportError(Exception):
    """What cannot be exported: where in the user's code, why, and what to do."""


class LoadError(Exception):
    """A file that cannot be read, or whose weights are not those of the module."""


def is_users(filename):
    """Whether this file is the user's: not of torch, levin, Lightning or the interpreter."""
    path = os.path.abspath(filename)
    standard = path.startswith(_STANDARD) and "/site-packages/" not in path
    return not (filename.startswith("<") or standard or path.startswith(_LIBRARIES) or any(part in path for part in _PACKAGES))


def users_line(frames):
    """ "model.py:12" of the innermost frame that is the user's; an empty string when none is."""
    for frame in reversed(list(frames)):
        if is_users(frame.filename):
            return f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return ""


def calling_line():
    """The user's line that is running now."""
    return users_line(traceback.extract_stack(sys._getframe(1)))


def raising_line(error):
    """The user's line from which an exception came."""
    return users_line(traceback.extract_tb(error.__traceback__))


def line_of(function):
    """The line on which a function is defined."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code else ""


def refuse(what, advice, where=None):
    """Raises ExportError of the line that is running, or of `where`."""
    where = calling_line() if where is None else where
    raise ExportError(f"{where + ': ' if where else ''}{what}. {advice}")
