#!/usr/bin/env python3
"""Tests the packages in dist/ as users have them: `make test-packages`.

    tests/packages/check_packages.py [NAME,NAME]     some of the checks, by name; without names all of them

It needs root and debootstrap for what runs in a separate Debian. pip installs torch in each: a folder of wheels given with
PIP_FIND_LINKS spares the downloads.
"""

import contextlib
import csv
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
TORCH = (ROOT / "cmake/torch_version.txt").read_text().strip()
WORK = pathlib.Path(os.environ.get("LEVIN_PACKAGES_FOLDER", ROOT / "build-packages"))
CHECKS = {}


class Failure(Exception):
    pass


def need(truth, what):
    if not truth:
        raise Failure(what)


def check(function):
    CHECKS[function.__name__] = function
    return function


def run(*command, status=0, limit=900, cwd=None, **environment):
    """What a command prints, both outputs together; it has to end with this status."""
    command = [str(word) for word in command]
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("LEVIN_", "Torch_", "CMAKE_", "PYTHONPATH"))}
    done = subprocess.run(command, cwd=cwd, env={**variables, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", timeout=limit)
    need(done.returncode == status, f"status {done.returncode} instead of {status}: {' '.join(command)}\n{done.stdout[-2000:]}")
    return done.stdout


def only(pattern):
    found = sorted(DIST.glob(pattern))
    need(len(found) == 1, f"dist/ has {len(found)} files {pattern}: make wheel deb")
    return found[0]


def wheel():
    return only("levin_train-*[0-9]-py3-none-*.whl")


def site_packages(environment):
    return next((environment / "lib").glob("python3*/site-packages"))


def size_without_torch(site):
    return sum(path.stat().st_size for folder in site.glob("levin*") for path in folder.rglob("*") if path.is_file())


def test_accuracy(output):
    found = re.findall(r"test_acc\D+([0-9.]+)", output)
    need(found, f"no test_acc in:\n{output[-1500:]}")
    return float(found[-1])


def train_digits(run_levin, folder):
    """A new project with its data, trained and tested without a compiler: its accuracy."""
    run_levin("new", "digits", "--template", "classifier", cwd=folder)
    run_levin("fit", cwd=folder / "digits")
    accuracy = test_accuracy(run_levin("test", "--ckpt_path=best", cwd=folder / "digits"))
    need(accuracy >= 0.95, f"test_acc is {accuracy}")
    return accuracy


def environment():
    """The virtual environment of the checks: the wheel, with all that pip brings for it."""
    folder = WORK / "venv"
    done = folder / "installed"
    identity = hashlib.sha256(wheel().read_bytes()).hexdigest()
    if not (done.exists() and done.read_text() == identity):
        shutil.rmtree(folder, ignore_errors=True)
        run(sys.executable, "-m", "venv", folder)
        run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel()}[pandas]", limit=1800)
        done.write_text(identity)
    return folder


@check
def venv():
    """pip brings the torch that the wheel was built for; nothing but it is needed to train."""
    folder = environment()
    versions = json.loads(run(folder / "bin/pip", "list", "--format", "json", "--disable-pip-version-check"))
    torch = next(package["version"] for package in versions if package["name"] == "torch")
    need(torch.split("+")[0] == TORCH, f"torch {torch} instead of {TORCH}")
    size = size_without_torch(site_packages(folder))
    need(size <= 25e6, f"{size} bytes are installed besides torch")
    with tempfile.TemporaryDirectory() as project:
        project = pathlib.Path(project)
        begin = time.monotonic()
        run(folder / "bin/pip", "install", "--quiet", "--no-deps", "--force-reinstall", "--disable-pip-version-check", wheel())
        accuracy = train_digits(lambda *words, cwd: run(folder / "bin/levin", *words, cwd=cwd, CC="false", CXX="false"), project)
        seconds = time.monotonic() - begin
        run(folder / "bin/levin", "fit", "--trainer.devices=2", "--trainer.max_epochs=1", cwd=project / "digits")
    return f"test_acc {accuracy}, {size / 1e6:.1f} MB, {seconds:.0f} s besides torch"


@check
def guide():
    """The commands of docs/ run with what pip has installed, away from the clone."""
    return run(sys.executable, ROOT / "tests/acceptance/page_commands.py", environment() / "bin/levin", limit=3600).strip()


def run_c_program(levin, libtorch, folder):
    """A program in C is built with what pkg-config says of the wheel, and runs."""
    packages = pathlib.Path(run(levin, "--cmake-dir").strip()) / "../../pkgconfig"
    flags = run("pkg-config", "--cflags", "--libs", "levin-c", PKG_CONFIG_PATH=str(packages)).split()
    run("cc", "-std=c99", ROOT / "tests/acceptance/c_interface/interface.c", "-o", folder / "program", *flags, "-lm")
    said = run(folder / "program", cwd=folder, LD_LIBRARY_PATH=f"{libtorch}/lib")
    need("all hold" in said, said)
    need(pathlib.Path(run("pkg-config", "--variable=fortran_module", "levin-c", PKG_CONFIG_PATH=str(packages)).strip()).exists(), "no levin.f90")


@check
def setup():
    """Without torch in Python levin finds the LibTorch that make setup and levin setup bring, here the one that levin was built with."""
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        run(sys.executable, "-m", "venv", temporary / "venv")
        run(temporary / "venv/bin/pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", wheel())
        said = run(temporary / "venv/bin/levin", "setup")
        need(f"LibTorch {TORCH} is in" in said, said)
        accuracy = train_digits(lambda *words, cwd: run(temporary / "venv/bin/levin", *words, cwd=cwd), temporary)
        need(size_without_torch(site_packages(temporary / "venv")) <= 25e6, "more than 25 MB are installed")
        run(temporary / "venv/bin/levin", "doctor")
        run_c_program(temporary / "venv/bin/levin", re.search(r"LibTorch \S+ is in (\S+)", said)[1].rstrip("."), temporary)
        manual = run("find", temporary / "venv/share", "-name", "levin*", "-o", "-name", "_levin")
        need(manual.count("\n") == 4, f"manual page and completions: {manual}")
        run(temporary / "venv/bin/pip", "uninstall", "--quiet", "--yes", "levin-train")
        left = list((temporary / "venv").rglob("levin*"))
        need(not left, f"left behind: {left}")
    return f"test_acc {accuracy}"


@check
def python():
    """import levin_train: what belongs to Python."""
    folder = environment()
    with tempfile.TemporaryDirectory() as project:
        project = pathlib.Path(project)
        run(folder / "bin/levin", "new", "digits", cwd=project)
        run(folder / "bin/levin", "fit", "--trainer.max_epochs=2", cwd=project / "digits")
        program = """
import sys, json, os
import levin_train
assert 'torch' not in sys.modules and 'pandas' not in sys.modules, 'import levin_train imports torch or pandas'
metrics = levin_train.metrics('logs/version_0')
with open('logs/version_0/metrics.csv', 'a') as file:
    file.write('0,9')  # a row that is being written
assert str(levin_train.metrics('logs/version_0')) == str(metrics), 'half a row is read'
tensors = levin_train.load('logs/version_0/checkpoints/last.ckpt')
try:
    levin_train.metrics('logs')
    hint = ''
except FileNotFoundError as error:
    hint = str(error)
print(json.dumps({'columns': list(metrics), 'losses': [value for _, value in metrics.values_of('train_loss')], 'version': levin_train.__version__,
                  'tensors': len(tensors), 'kind': type(next(iter(tensors.values()))).__name__, 'cmake': os.listdir(levin_train.cmake_dir()), 'hint': hint,
                  'export': levin_train.export.__name__}))
"""
        said = json.loads(run(folder / "bin/python", "-c", program, cwd=project / "digits").splitlines()[-1])
        with open(project / "digits/logs/version_0/metrics.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    need(said["losses"] == [float(row["train_loss"]) for row in rows if row["train_loss"]], "metrics() has other losses than metrics.csv")
    need(said["columns"] == list(rows[0]), f"columns {said['columns']}")
    need(said["kind"] == "Tensor" and said["tensors"] > 4, f"load() gives {said['tensors']} of {said['kind']}")
    need("levinConfig.cmake" in said["cmake"], f"cmake_dir() has {said['cmake']}")
    need("version_0" in said["hint"], f"levin_train.metrics('logs') says {said['hint']!r}")
    need(said["export"] == "export" and wheel().name.startswith(f"levin_train-{said['version']}-"), f"version {said['version']}")
    return f"{len(said['losses'])} losses as in metrics.csv, {said['tensors']} tensors"


def precompiled(cache):
    return sorted(path.name for path in (cache / "precompiled").iterdir() if path.is_dir())


@check
def plugin():
    """find_package(levin) builds a plug-in against the wheel, and the machine's compilers each precompile levin's headers once."""
    folder = environment()
    said = []
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        cmake_dir = run(folder / "bin/levin", "--cmake-dir").strip()
        for compiler in [name for name in ("g++", "clang++-14") if shutil.which(name)]:
            for name in ("first", "second"):
                project = temporary / f"{name}{compiler[0]}"
                run(folder / "bin/levin", "new", project, "--template", "regression")
                begin = time.monotonic()
                run("cmake", "-B", "build", f"-Dlevin_DIR={cmake_dir}", f"-DCMAKE_CXX_COMPILER={compiler}", cwd=project)
                run("cmake", "--build", "build", cwd=project, LEVIN_CACHE=str(temporary / "cache"))
                said.append(f"{compiler} {time.monotonic() - begin:.0f} s")
                run("ctest", "--test-dir", "build", "--output-on-failure", cwd=project)
                run(folder / "bin/levin", "fit", "--config", "config.yaml", "--trainer.max_epochs=2", cwd=project)
            need(len(precompiled(temporary / "cache")) == len(said) // 2, f"precompiled: {precompiled(temporary / 'cache')}")
    return ", ".join(said)


@check
def other_torch():
    """A LibTorch of another version, and none at all, are errors of one sentence; LEVIN_TORCH names one elsewhere."""
    folder = environment()
    with tempfile.TemporaryDirectory() as temporary:
        temporary = pathlib.Path(temporary)
        (temporary / "torch").mkdir()
        (temporary / "torch/version.py").write_text("__version__ = '2.12.0+cpu'\n")
        other = run(folder / "bin/levin", "--version", status=1, LEVIN_TORCH=str(temporary / "torch"))
        need(TORCH in other and "2.12.0" in other and f"pip install torch=={TORCH}" in other and other.count("\n") == 1, other)
        run(sys.executable, "-m", "venv", temporary / "venv")
        run(temporary / "venv/bin/pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", wheel())
        none = run(temporary / "venv/bin/levin", "--version", status=1, HOME=str(temporary))
        need(f"torch=={TORCH}" in none and "LEVIN_TORCH" in none and none.count("\n") == 1, none)
        found = run(temporary / "venv/bin/levin", "--version", HOME=str(temporary), LEVIN_TORCH=str(site_packages(folder) / "torch"))
    need(f"LibTorch {TORCH}" in found, found)
    return other.strip()


@contextlib.contextmanager
def debian(*packages):
    """A Debian in a folder, that of debootstrap with these packages: a function that runs a command in it as root."""
    base = WORK / "debian.tar"
    if not base.exists():
        shutil.rmtree(WORK / "debootstrap", ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={','.join(packages)}", "bookworm", WORK / "debootstrap", limit=1800)
        run("tar", "-C", WORK / "debootstrap", "-cf", base, ".")
        shutil.rmtree(WORK / "debootstrap")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="debian-", dir=WORK))
    run("tar", "-C", folder, "-xf", base)
    # What the network of this machine needs.
    shutil.copy("/etc/resolv.conf", folder / "etc/resolv.conf")
    if os.path.exists("/etc/ssl/certs/ca-certificates.crt"):
        shutil.copy("/etc/ssl/certs/ca-certificates.crt", folder / "etc/ssl/certs/ca-certificates.crt")
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    mounts = ["proc", "dev", "dev/pts", "dev/shm", *(["wheels"] if os.path.isdir(wheels) else [])]
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        for name in mounts:
            (folder / name).mkdir(exist_ok=True, parents=True)
            run("mount", "--bind", {"wheels": wheels}.get(name, f"/{name}"), folder / name)
            stack.callback(run, "umount", "--lazy", folder / name)

        def inside(*words, cwd="/root", status=0, limit=1800, **environment):
            cwd = "/" + str(pathlib.Path(cwd).relative_to(folder)) if str(cwd).startswith(str(folder)) else cwd
            links = {"PIP_FIND_LINKS": "/wheels"} if "wheels" in mounts else {}
            return run("chroot", folder, "/usr/bin/env", "-C", cwd, *words, status=status, limit=limit, HOME="/root",
                       PATH="/usr/sbin:/usr/bin:/sbin:/bin", PIP_ROOT_USER_ACTION="ignore", LC_ALL="C.UTF-8", **links, **environment)

        yield folder, inside


PACKAGES = ("python3-venv", "python3-pip", "ca-certificates")


@check
def bare_debian():
    """A Debian that never saw a compiler: pip install, levin new, levin fit."""
    with debian(*PACKAGES) as (folder, inside):
        need(not list((folder / "usr/bin").glob("*g++*")), "there is a compiler")
        shutil.copy(wheel(), folder / "root")
        begin = time.monotonic()
        inside("python3", "-m", "venv", "v")
        inside("v/bin/pip", "install", "--quiet", f"./{wheel().name}")
        installed = time.monotonic() - begin
        begin = time.monotonic()
        accuracy = train_digits(lambda *words, cwd: inside("/root/v/bin/levin", *words, cwd=cwd), folder / "root")
        trained = time.monotonic() - begin
        inside("v/bin/pip", "uninstall", "--quiet", "--yes", "levin-train")
        left = list((folder / "root/v").rglob("levin*"))
        need(not left, f"left behind: {left}")
    return f"test_acc {accuracy}; {installed:.0f} s to install levin and torch, {trained:.0f} s to make, train and test the digits"


def files_of(folder):
    skipped = ("proc", "dev", "root", "wheels", "tmp", "var/lib/apt", "var/cache", "var/log", "var/lib/dpkg")
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if not str(path.relative_to(folder)).startswith(skipped)}


@check
def debian_package():
    """apt installs the Debian package with what it needs, levin setup installs LibTorch, and removal leaves nothing."""
    package = only("levin_*.deb")
    said = run("lintian", "--fail-on", "error", package)
    with debian(*PACKAGES) as (folder, inside):
        inside("apt-get", "update", "-qq")
        # What it depends on stays.
        inside("apt-get", "install", "-y", "-qq", "--no-install-recommends",
               *[re.sub(r" .*", "", name) for name in run("dpkg-deb", "--field", package, "Depends").strip().split(", ")])
        before = files_of(folder)
        shutil.copy(package, folder / "root")
        inside("dpkg", "-i", package.name)
        missing = inside("levin", "--version", status=1)
        need("levin setup" in missing, missing)
        inside("levin", "setup", "--cpu")
        accuracy = train_digits(lambda *words, cwd: inside("levin", *words, cwd=cwd), folder / "root")
        inside("dpkg", "--purge", "levin")
        left = files_of(folder) - before
        need(not left, f"left behind: {sorted(left)[:10]}")
    return f"test_acc {accuracy}; lintian: {said.count('W:')} warnings"


@check
def bill():
    """The bill of materials is SPDX, names each library that the wheel carries, and the checksums are those of the files."""
    document = json.loads((DIST / f"{wheel().name.split('-py3')[0]}.spdx.json").read_text())
    names = {package["name"] for package in document["packages"]}
    need({"levin", "torch", "yaml-cpp", "fmt", "protobuf", "libpng", "CLI11", "nlohmann-json", "agg"} <= names, f"packages {names}")
    need(all(package["versionInfo"] not in ("", "NOASSERTION") for package in document["packages"]), "a package without a version")
    tools = WORK / "spdx"
    if not (tools / "bin/pyspdxtools").exists():
        run(sys.executable, "-m", "venv", tools)
        run(tools / "bin/pip", "install", "--quiet", "--disable-pip-version-check", "spdx-tools==0.8.3")
    run(tools / "bin/pyspdxtools", "-i", next(DIST.glob("levin_train-*[0-9].spdx.json")))
    run("sha256sum", "--check", "--quiet", "SHA256SUMS", cwd=DIST)
    return f"{len(names)} packages, {len(document['files'])} files"


@check
def same_bytes():
    """The same commit, built in another folder and without a compiler cache, gives the same wheel."""
    need(not run("git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT).strip(), "the clone differs from its commit: commit first")
    with tempfile.TemporaryDirectory(prefix="another-place-") as temporary:
        clone = pathlib.Path(temporary) / "clone"
        run("git", "clone", "--quiet", ROOT, clone)
        run("scripts/wheel.sh", cwd=clone, limit=3600, CCACHE_DISABLE="1")
        again = (clone / "dist" / wheel().name).read_bytes()
        need(again == wheel().read_bytes(), "the two differ")
    return hashlib.sha256(again).hexdigest()


def main():
    wanted = [name for word in sys.argv[1:] for name in word.split(",")] or list(CHECKS)
    unknown = sorted(set(wanted) - set(CHECKS))
    if unknown:
        sys.exit(f"no check is named {', '.join(unknown)}: {', '.join(CHECKS)}")
    WORK.mkdir(parents=True, exist_ok=True)
    failed = 0
    for name in wanted:
        begin = time.monotonic()
        try:
            said = CHECKS[name]()
            print(f"{name}: ok in {time.monotonic() - begin:.0f} s: {said}", flush=True)
        except (Failure, subprocess.TimeoutExpired, OSError) as error:
            failed += 1
            print(f"{name}: FAILED after {time.monotonic() - begin:.0f} s: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
