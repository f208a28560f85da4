#!/usr/bin/env bash
# Installs what a build of levin needs and is missing: Debian packages, and LibTorch and pyarrow into a folder outside the clone.
# Usage: scripts/setup.sh [lint|fuzz|launchers|site]   With `lint`, clang, libFuzzer, clang-format and clang-tidy (from PyPI, into
# the folder of LibTorch) too; with `fuzz`, clang and libFuzzer; with `launchers`, Open MPI and Slurm, which some tests start;
# with `site`, Doxygen alone, and no LibTorch. A run that finds everything in place takes milliseconds.
#
# Environment: see setup_libtorch.sh.
#   LEVIN_ARROW  the folder of a pyarrow that you have: then none is downloaded
set -euo pipefail

torch_version=${LEVIN_TORCH_VERSION:-$(<"$(dirname "$0")/../cmake/torch_version.txt")}
cache=${LEVIN_CACHE:-$HOME/.cache/levin}
python=${PYTHON:-python3}

say() { printf 'levin setup: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

# ---- Debian packages ----------------------------------------------------------------------------------------------------

packages=(g++ cmake ninja-build ccache libyaml-cpp-dev libcli11-dev libfmt-dev nlohmann-json3-dev zlib1g-dev libpng-dev libagg-dev
  libcurl4-openssl-dev libprotobuf-dev protobuf-compiler libgloo-dev catch2 librapidcheck-dev gfortran pkgconf libcpp-httplib-dev libjpeg-dev libwebp-dev libhdf5-dev libpcre2-dev libutf8proc-dev libzstd-dev openssl python3 python3-jsonschema
  python3-yaml)
[[ ${1:-} != lint ]] || packages+=(clang-format-14 clang-14 libclang-rt-14-dev)
[[ ${1:-} != launchers ]] || packages+=(openmpi-bin slurmctld slurmd slurm-client munge iproute2)
[[ ${1:-} != fuzz ]] || packages+=(clang-14 libclang-rt-14-dev)
[[ ${1:-} != site ]] || packages=(doxygen python3 python3-venv)

# Prints those of the given packages that are not installed.
missing_packages() {
  local installed
  installed=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *//p' || true)
  local package
  for package in "$@"; do
    grep -qxF "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

install_packages() {
  (($# == 0)) && return
  local as_root=()
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null || [[ -t 0 && -n $(command -v sudo) ]] || fail "missing packages; as root, run: apt-get install $*"
    as_root=(sudo)
  fi
  local install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@")
  say "installing $*"
  # A machine with old package lists gets new ones, and only then.
  "${install[@]}" >/dev/null 2>&1 || { "${as_root[@]}" apt-get update -qq && "${install[@]}" >/dev/null; } ||
    fail "apt-get could not install: $* (see above)"
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  mapfile -t missing < <(missing_packages "${packages[@]}")
  install_packages "${missing[@]}"
fi # Elsewhere CMake says in one line what is missing.

# ---- LibTorch and clang-tidy ------------------------------------------------------------------------------------------------

need_pip() {
  ! "$python" -m pip --version >/dev/null 2>&1 || return 0
  command -v apt-get >/dev/null || return 0 # scripts that need pip say so
  install_packages python3-pip
  python=/usr/bin/python3
}

# Debian's takes a minute for a source that reads LibTorch's headers, since it checks all of them: newer ones take two seconds.
download_clang_tidy() {
  local version folder
  version=$(<"$(dirname "$0")/../cmake/clang_tidy_version.txt")
  folder=$cache/clang-tidy-$version
  [[ ! -x $folder/clang_tidy/data/bin/clang-tidy ]] || return 0
  mkdir -p "$cache"
  need_pip
  say "downloading clang-tidy $version into $folder; this is done once"
  rm -rf "$folder.partial"
  if ! "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --target "$folder.partial" "clang-tidy==$version"; then
    say "clang-tidy $version could not be downloaded (see above); continuing with Debian's, which is slower"
    install_packages clang-tidy-14
    return
  fi
  rm -rf "$folder"
  mv "$folder.partial" "$folder"
}

# Arrow's libraries and headers, which Debian does not have. Without them levin reads no Parquet files.
download_pyarrow() {
  local version folder
  version=$(<"$(dirname "$0")/../cmake/pyarrow_version.txt")
  folder=$cache/pyarrow-$version
  [[ -z ${LEVIN_ARROW:-} && ! -e $folder/pyarrow/include/parquet/arrow/reader.h ]] || return 0
  mkdir -p "$cache"
  need_pip
  say "downloading pyarrow $version into $folder; this is done once"
  rm -rf "$folder.partial"
  if ! "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps --target "$folder.partial" "pyarrow==$version"; then
    say "pyarrow $version could not be downloaded (see above); continuing without Parquet files"
    return
  fi
  rm -rf "$folder"
  mv "$folder.partial" "$folder"
}

[[ ${1:-} != site ]] || exit 0
[[ ${1:-} != lint ]] || download_clang_tidy
download_pyarrow
[[ -n ${Torch_DIR:-}${CMAKE_PREFIX_PATH:-} || -d $cache/torch-$torch_version-cpu/torch || -d $cache/torch-$torch_version-cuda/torch ]] || need_pip
PYTHON=$python exec "$(dirname "$0")/setup_libtorch.sh" --quiet
