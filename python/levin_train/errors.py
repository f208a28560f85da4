"""Errors of an export, with the line of the user's code."""

import functools
import importlib.util
import inspect
import os
import sys
import sysconfig
import traceback

_TORCH = importlib.util.find_spec("torch")  # which importing levin does not import
_LIBRARIES = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (getattr(_TORCH, "origin", None), __file__) if path)
_STANDARD = os.path.abspath(sysconfig.get_paths()["stdlib"]) + os.sep
_PACKAGES = ("/lightning/", "/pytorch_lightning/", "/lightning_utilities/", "/torchmetrics/", "/site-packages/numpy/", "/dist-packages/numpy/")
_DEMOS = "/pytorch/demos/"  # modules that Lightning has as examples
_INSTALLED = ("/site-packages/", "/dist-packages/")


class ExportError(Exception):
    """What cannot be exported: where in the user's code, why, and what to do."""


class StepFailure(ExportError):
    """A step that fails in Python, on the batch that export() got."""


class AnotherSource(ExportError):
    """A number of the run, or a length, is read in this module of Python, which was not taken for one of the user's."""

    def __init__(self, source):
        super().__init__(f"{source} reads a number that changes")
        self.source = source


class LoadError(Exception):
    """A file that cannot be read, or whose weights are not those of the module."""


@functools.lru_cache(maxsize=None)
def is_standard(filename):
    """Whether this file is of Python itself."""
    path = os.path.abspath(filename)
    return filename.startswith("<frozen") or path.startswith(_STANDARD) and not any(part in path for part in _INSTALLED)


@functools.lru_cache(maxsize=None)
def is_users(filename):
    """Whether this file is the user's: not of torch, levin, Lightning or the interpreter."""
    path = os.path.abspath(filename)
    return not (filename.startswith("<") or is_standard(filename) or path.startswith(_LIBRARIES) or
                any(part in path for part in _PACKAGES) and _DEMOS not in path)


@functools.lru_cache(maxsize=None)
def shown_path(filename):
    """A file as messages name it, with its package: "transformers/models/gpt2/modeling_gpt2.py"."""
    path = os.path.abspath(filename)
    for part in _INSTALLED:
        if part in path:
            return path.rsplit(part, 1)[1]
    folder, name = os.path.split(path)
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = f"{package}/{name}"
    return name


def users_line(frames):
    """ "model.py:12" of the innermost frame that is the user's; an empty string when none is."""
    for frame in reversed(list(frames)):
        if is_users(frame.filename):
            return f"{shown_path(frame.filename)}:{frame.lineno}"
    return ""


def calling_frame():
    """The innermost frame that is the user's, or None."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def asking_frame():
    """The innermost frame that is not of this package: of the user's code, or of a library that it calls."""
    frame = sys._getframe(1)
    while frame is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == os.path.dirname(os.path.abspath(__file__)):
        frame = frame.f_back
    return frame


def calling_line():
    """The user's line that is running now."""
    frame = calling_frame()
    return f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}" if frame else ""


def raising_line(error):
    """The user's line from which an exception came."""
    return users_line(traceback.extract_tb(error.__traceback__))


def line_of(function):
    """The line on which a function is defined, whatever is around it."""
    code = getattr(inspect.unwrap(getattr(function, "__func__", function)), "__code__", None)
    return f"{shown_path(code.co_filename)}:{code.co_firstlineno}" if code else ""


def is_installed(function):
    """Whether a function is of an installed package, and not one that the user can change."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and any(part in os.path.abspath(code.co_filename) for part in _INSTALLED)


def refuse(what, advice, where=None):
    """Raises ExportError of the line that is running, or of `where`."""
    where = calling_line() if where is None else where
    raise ExportError(f"{where + ': ' if where else ''}{what}. {advice}{'' if advice.endswith('.') else '.'}")
