#!/usr/bin/env bash
# Builds levin for a package, without a path of this machine, in $build; for scripts that source it, from the folder of the clone:
#   build_package FLAGS…   FLAGS: where what is installed goes, and where libraries look for LibTorch
# The packages of one version of torch share the folder: what is compiled is the same.
#
# Environment:
#   TORCH   version of torch that the package is for (default: cmake/torch_version.txt)
#   JOBS    how many compilers at a time
torch=${TORCH:-$(<cmake/torch_version.txt)}
build=build-package/torch-$torch
export LEVIN_TORCH_VERSION=$torch
# The one time of all that a package holds: the manual page, the changelog, the files.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

build_package() {
  scripts/setup.sh
  scripts/configure.sh "$build" -DCMAKE_BUILD_TYPE=Release -DLEVIN_TESTS=OFF -DLEVIN_EXAMPLES=OFF -DLEVIN_BENCHMARKS=OFF "$@"
  cmake "$build" >/dev/null # what is configured with the same flags may have the time of another commit
  cmake --build "$build" -j "${JOBS:-$(nproc)}" --target all levin_manual
}
