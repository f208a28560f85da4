"""The Python with what levin is compared with: a virtual environment of the benchmarks' own, in the build folder.

Its torch is the one that levin was built with, where Python can load that: then both sides compute with the same LibTorch. It
cannot load the part for CPUs alone that scripts/setup.sh downloads; then it is one of the same version next to it, or the wheel of
the same version.
"""
import hashlib
import pathlib
import subprocess
import sys

import machine

CPU_WHEELS = "https://download.pytorch.org/whl/cpu"


class Unavailable(Exception):
    """There is no such environment, and it cannot be made; the message says why."""


def run(*command):
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
    except FileNotFoundError as error:
        raise Unavailable(f"{command[0]} is missing") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{' '.join(map(str, command[:4]))} took more than half an hour") from error
    except subprocess.CalledProcessError as error:
        last_line = (error.stderr or error.stdout).strip().splitlines()[-1:]
        raise Unavailable(f"{' '.join(map(str, command[:4]))} failed: {''.join(last_line)}") from error


def loads_torch(python, folder):
    query = f"import sys; sys.path.insert(0, {str(folder)!r}); import torch"
    return subprocess.run([python, "-c", query], capture_output=True, check=False).returncode == 0


def downloaded_torches(libtorch, version):
    """Folders in which setup.sh has put this version, that of `libtorch` first."""
    return [libtorch.parent] + sorted(set(libtorch.parent.parent.glob(f"torch-{version}-*")) - {libtorch.parent})


def install_torch(pip, version):
    try:
        run(*pip, f"torch=={version}", "--index-url", CPU_WHEELS)
    except Unavailable:  # not every machine reaches it
        run(*pip, f"torch=={version}")


def make(build, source):
    """Makes the environment, unless it exists, and gives its Python. Throws Unavailable."""
    folder = pathlib.Path(build).absolute() / "bench-venv"
    python = folder / "bin" / "python"
    requirements = pathlib.Path(source) / "requirements.txt"
    torch_version = (pathlib.Path(source).parent / "cmake" / "torch_version.txt").read_text().strip()
    libtorch = pathlib.Path(machine.cached(build, "LEVIN_TORCH_ROOT"))
    wanted = hashlib.sha256(f"{requirements.read_text()} {torch_version} {libtorch}".encode()).hexdigest()
    stamp = folder / "made-with.txt"
    if stamp.exists() and stamp.read_text() == wanted:
        return python
    print(f"benchmarks: installing what levin is compared with into {folder}; this is done once", file=sys.stderr, flush=True)
    run(sys.executable, "-m", "venv", "--clear", str(folder))
    pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    torches = downloaded_torches(libtorch, torch_version) if libtorch.name == "torch" else []
    torch = next((candidate for candidate in torches if loads_torch(str(python), candidate)), None)
    if torch:
        packages = next((folder / "lib").glob("python*")) / "site-packages"
        (packages / "levins_torch.pth").write_text(f"{torch}\n")
    else:
        install_torch(pip, torch_version)
    run(*pip, "-r", str(requirements))
    run(str(python), "-c", "import torch, lightning, accelerate")
    stamp.write_text(wanted)
    return python
