"""What numbers were measured on, and with."""
import datetime
import os
import pathlib
import platform
import re
import subprocess


def cores():
    """That this process may use."""
    return len(os.sched_getaffinity(0))


def cached(build, key):
    """An entry of the build folder's CMakeCache.txt; empty when there is none."""
    try:
        found = re.search(rf"^{key}(?::\w+)?=(.*)$", (pathlib.Path(build) / "CMakeCache.txt").read_text(), re.MULTILINE)
    except OSError:
        return ""
    return found.group(1) if found else ""


def first_match(file, pattern):
    try:
        found = re.search(pattern, pathlib.Path(file).read_text(), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1) if found else "unknown"


def libtorch_version(root):
    header = pathlib.Path(root) / "include/torch/headeronly/version.h"
    return ".".join(first_match(header, rf"define TORCH_VERSION_{part} (\d+)") for part in ("MAJOR", "MINOR", "PATCH"))


def output_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def describe(build, source, python):
    """Pairs of a name and a text, in the order in which a reader wants them."""
    memory = int(first_match("/proc/meminfo", r"^MemTotal:\s+(\d+)").replace("unknown", "0"))
    versions = [
        ("levin", output_of("git", "-C", str(source), "describe", "--always", "--dirty")),
        ("LibTorch", libtorch_version(cached(build, "LEVIN_TORCH_ROOT"))),
        ("compiler", output_of(cached(build, "CMAKE_CXX_COMPILER"), "--version").splitlines()[0:1]),
        ("build type", cached(build, "CMAKE_BUILD_TYPE")),
        ("Python", platform.python_version()),
    ]
    if python:
        for name in ("torch", "lightning", "accelerate"):
            query = f"import importlib.metadata as m; print(m.version('{name}'))"
            versions.append((name, output_of(str(python), "-c", query)))
    processor = first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$")
    machine = [
        ("when", datetime.date.today().isoformat()),
        ("processor", f"{processor}, {cores()} cores"),
        ("memory", f"{memory / 2**20:.0f} GiB"),
        ("system", f"{platform.system()} {platform.release()}"),
        ("load before", " ".join(f"{load:.1f}" for load in os.getloadavg())),
    ]
    texts = [(name, text[0] if isinstance(text, list) and text else text) for name, text in machine + versions]
    return [(name, text) for name, text in texts if text and text != "unknown"]
