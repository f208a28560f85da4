"""What a step does outside of Python: files, other programs, and the environment."""

import contextlib
import os
import sys

from levin_train.errors import is_standard, is_users, refuse, shown_path

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND
_REFUSED = {"subprocess.Popen": "starts another program", "os.system": "starts another program", "socket.connect": "connects to a server",
            "os.mkdir": "makes a folder", "os.remove": "removes a file", "os.rename": "renames a file"}
_ADVICE = "Log values with self.log(), return tensors from predict_step, or do it in a callback"
_THROUGH = ("/numpy/", "/PIL/", "/pandas/", "/torch/serialization.py")  # what they open, they open for the user
_watcher = None
_installed = False


def _frame_of_user():
    """The user's frame that has asked Python for this, or None where torch or Python does it on its own account."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        passed = any(part in name for part in _THROUGH)
        if is_users(name) and not passed:
            break
        own = name.startswith("<frozen importlib") or name.endswith(("/linecache.py", "/inspect.py"))
        if own or not (passed or is_standard(name)):
            return None
        frame = frame.f_back
    return None if _is_import(frame) else frame


def _is_import(frame):
    """Whether a module is being imported, for the first time: what it reads then is not of the step."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _line(frame):
    return f"{shown_path(frame.f_code.co_filename)}:{frame.f_lineno}"


def _hook(event, args):
    if _watcher is not None and (event == "open" or event in _REFUSED):
        frame = _frame_of_user()
        if frame is not None:
            _watcher(event, args, _line(frame))


@contextlib.contextmanager
def watched(note):
    """While it lasts, what writes a file is refused, and what is read is noted."""
    global _watcher, _installed

    def see(event, args, line):
        if event in _REFUSED:
            refuse(f"the step {_REFUSED[event]}, which a package cannot do", _ADVICE, line)
        path, mode, flags = args
        if mode and set(mode) & set("wax+") or not mode and (flags or 0) & _WRITES:
            refuse(f"the step writes the file {path!r}, which a package cannot do", _ADVICE, line)
        note(f"{line}: the step reads the file {path!r}: what it makes of it is fixed in the package")

    environment = type(os.environ)
    read = environment.__getitem__

    def get(self, name):
        frame = sys._getframe(1)
        while is_standard(frame.f_code.co_filename):
            frame = frame.f_back
        if is_users(frame.f_code.co_filename) and not _is_import(frame):
            note(f"{_line(frame)}: the step reads the environment variable {name}: its value is fixed in the package")
        return read(self, name)

    if not _installed:  # an audit hook stays for as long as the process
        sys.addaudithook(_hook)
        _installed = True
    _watcher, environment.__getitem__ = see, get
    try:
        yield
    finally:
        _watcher, environment.__getitem__ = None, read
