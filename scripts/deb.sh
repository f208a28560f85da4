#!/usr/bin/env bash
# Builds levin for a Debian package, and makes it with cpack in dist/.
# Usage: scripts/deb.sh
#
# Environment:
#   TORCH   version of LibTorch that the package is for (default: cmake/torch_version.txt)
#   JOBS    how many compilers at a time
set -euo pipefail
cd "$(dirname "$0")/.."
torch=${TORCH:-$(<cmake/torch_version.txt)}
build=build-package/torch-$torch # that of the wheel: what is compiled is the same
export LEVIN_TORCH_VERSION=$torch
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

scripts/setup.sh
scripts/configure.sh "$build" -DCMAKE_BUILD_TYPE=Release -DLEVIN_TESTS=OFF -DLEVIN_EXAMPLES=OFF -DLEVIN_BENCHMARKS=OFF \
  -DLEVIN_DEBIAN=ON -DLEVIN_TORCH_RPATH=none -DCMAKE_INSTALL_BINDIR=lib/levin/bin -DCMAKE_INSTALL_LIBDIR=lib/levin/lib \
  -DCMAKE_INSTALL_INCLUDEDIR=lib/levin/include -DCMAKE_INSTALL_DATADIR=lib/levin/share -DCMAKE_INSTALL_MANDIR=share/man
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target all levin_manual
rm -f "$build"/*.deb
(cd "$build" && umask 022 && cpack -G DEB >cpack.log || { cat cpack.log >&2; exit 1; })
mkdir -p dist
package=$(basename "$build"/*.deb)
mv "$build/$package" dist/
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
dpkg-deb --extract "dist/$package" "$unpacked"
python3 scripts/bill_of_materials.py "$unpacked" "$(dpkg-deb --field "dist/$package" Version)" "$torch" "dist/${package%.deb}.spdx.json"
ls -lh dist/*.deb
