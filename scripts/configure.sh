#!/usr/bin/env bash
# Configures a build folder, unless it is configured with the same flags already.
# Usage: scripts/configure.sh BUILD_FOLDER [cmake flags...]
set -euo pipefail
build=$1
shift
flags="$(pwd) $* Torch_DIR=${Torch_DIR:-} CMAKE_PREFIX_PATH=${CMAKE_PREFIX_PATH:-} LEVIN_CACHE=${LEVIN_CACHE:-} \
LEVIN_TORCH_VERSION=${LEVIN_TORCH_VERSION:-} LEVIN_CUDA=${LEVIN_CUDA:-}"
stamp=$build/configured-with.txt
if [[ -e $build/build.ninja && -e $stamp && $(<"$stamp") == "$flags" ]]; then
  libtorch=$(sed -n 's/^LEVIN_TORCH_ROOT:[A-Z]*=//p' "$build/CMakeCache.txt")
  [[ ! -e $libtorch/lib/libtorch_cpu.so ]] || exit 0
fi
rm -f "$stamp"
cmake -G Ninja -S . -B "$build" "$@"
printf '%s' "$flags" >"$stamp"
