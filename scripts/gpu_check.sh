#!/usr/bin/env bash
# Checks on a GPU what needs one, and writes build-gpu/gpu-check/gpu-report.md. Where there is no GPU it says so, and exits with 77.
# Usage: scripts/gpu_check.sh [prepare]
# With `prepare` nothing is run: what is needed goes into build-gpu/gpu-check.tar.xz, for a machine that has neither compilers nor a
# network, but a python3 with torch of version GPU_TORCH. There, in a copy of the clone that lies (or is linked to) where this one is:
#   tar -xJf build-gpu/gpu-check.tar.xz && python3 tests/gpu/gpu_check.py --build build-gpu --out gpu-check
#
# Environment:
#   GPU_TORCH   version of LibTorch to build for (default: cmake/torch_version.txt)
#   JOBS        how many compilers at a time
set -euo pipefail
cd "$(dirname "$0")/.."
prepare=${1:-}
build=build-gpu

if [[ $prepare != prepare ]] && ! compgen -G '/dev/nvidia[0-9]*' >/dev/null && [[ ! -e /dev/dxg ]]; then
  echo "gpu-check: this machine has no GPU; nothing is checked. scripts/gpu_check.sh prepare makes a folder for one that has." >&2
  exit 77
fi

export LEVIN_CUDA=ON LEVIN_TORCH_VERSION=${GPU_TORCH:-$(<cmake/torch_version.txt)}
scripts/setup.sh
scripts/configure.sh "$build" -DCMAKE_BUILD_TYPE=Release -DLEVIN_CUDA=ON
tests=(device_tests metrics_tests optim_tests inside_programs)
cmake --build "$build" -j "${JOBS:-$(nproc)}" --target gpu_check_parts "${tests[@]}"
torch=$(sed -n 's/^LEVIN_TORCH_ROOT:[A-Z]*=//p' "$build/CMakeCache.txt")

if [[ $prepare != prepare ]]; then
  exec python3 tests/gpu/gpu_check.py --build "$build" --out "$build/gpu-check" --torch "$torch"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/$build/bin" "$folder/$build/lib/parts" "$folder/$build/lib/levin/plugins"
for program in levin step_overhead own_trainer own_loop cuda_tests "${tests[@]}"; do
  strip -o "$folder/$build/bin/$program" "$build/bin/$program"
done
for library in "$build"/lib/levin/plugins/*.so; do strip -o "$folder/$library" "$library"; done
soname=$(readlink "$build/lib/liblevin.so")
strip -o "$folder/$build/lib/$soname" "$build/lib/$soname"
for library in levin_cuda levin_text; do strip -o "$folder/$build/lib/lib$library.so" "$build/lib/lib$library.so"; done
ln -s ../lib/liblevin_cuda.so "$folder/$build/bin/liblevin_cuda.so"
# What Debian's packages bring.
ldd "$build/lib/liblevin.so" "$build/lib/liblevin_text.so" | sed -n 's/^\t\(libyaml-cpp\|libfmt\|libz\|libpng\|libprotobuf-lite\|libpcre2-8\|libutf8proc\).* => \([^ ]*\) .*/\2/p' |
  sort -u | xargs cp -L -t "$folder/$build/lib/parts"
tar -cJf "$build/gpu-check.tar.xz" -C "$folder" "$build"
ls -lh "$build/gpu-check.tar.xz"
