"""What the wheel has besides Python code: the levin program, its library, headers and CMake files."""

import importlib.metadata
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))

try:
    __version__ = importlib.metadata.version("levin-train")
except importlib.metadata.PackageNotFoundError:  # a clone's python/ on PYTHONPATH
    __version__ = "0"


def cmake_dir():
    """The folder for CMake's -Dlevin_DIR. Raises FileNotFoundError where there is none, as in a clone that is not installed."""
    folder = os.path.join(_FOLDER, "lib", "cmake", "levin")
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"'{_FOLDER}' has no CMake files: it is not of a wheel. In a clone, levin_DIR is the build folder.")
    return folder


def run_program():
    """The `levin` command: becomes levin's program, which finds torch next to itself, or where LEVIN_TORCH says."""
    program = os.path.join(_FOLDER, "bin", "levin")
    beside = os.path.join(os.path.dirname(_FOLDER), "torch")
    if "LEVIN_TORCH" not in os.environ and not os.path.isdir(beside):
        found = importlib.util.find_spec("torch")
        if found is not None and found.submodule_search_locations:
            os.environ["LEVIN_TORCH"] = found.submodule_search_locations[0]
    os.environ.setdefault("PYTHON", sys.executable)  # for what the program leaves to Python
    # Its own name, by which it was called, is what levin prints in the commands that it proposes.
    os.execv(program, [sys.argv[0], *sys.argv[1:]])
