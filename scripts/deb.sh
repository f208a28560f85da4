#!/usr/bin/env bash
# Makes a Debian package of levin with cpack in dist/.
# Usage: scripts/deb.sh
# Environment: see build_package.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/build_package.sh

build_package -DLEVIN_DEBIAN=ON -DLEVIN_TORCH_RPATH=none -DCMAKE_INSTALL_BINDIR=lib/levin/bin -DCMAKE_INSTALL_LIBDIR=lib/levin/lib \
  -DCMAKE_INSTALL_INCLUDEDIR=lib/levin/include -DCMAKE_INSTALL_DATADIR=lib/levin/share -DCMAKE_INSTALL_MANDIR=share/man
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
