#!/usr/bin/env bash
# Installs what a build of levin needs and is missing: Debian packages, and LibTorch into a folder outside the clone.
# Usage: scripts/setup.sh [lint|fuzz|launchers|site]   With `lint`, clang, libFuzzer, clang-format and clang-tidy (from PyPI, into
# the folder of LibTorch) too; with `fuzz`, clang and libFuzzer; with `launchers`, Open MPI and Slurm, which some tests start;
# with `site`, Doxygen alone, and no LibTorch. A run that finds everything in place takes milliseconds.
#
# Environment:
#   LEVIN_CACHE          where LibTorch and clang-tidy are kept, shared by all clones (default ~/.cache/levin)
#   LEVIN_TORCH_VERSION  version of LibTorch to download (default: cmake/torch_version.txt)
#   LEVIN_CUDA           ON, OFF or AUTO (default): with CUDA's libraries, 3.4 GB more; AUTO when a GPU is there
#   Torch_DIR, CMAKE_PREFIX_PATH   a LibTorch of your own; then none is downloaded
#   PYTHON               the Python whose pip downloads LibTorch (default python3)
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
  libcurl4-openssl-dev libprotobuf-dev protobuf-compiler libsqlite3-dev libgloo-dev catch2 librapidcheck-dev python3 python3-jsonschema python3-yaml)
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

# ---- LibTorch -----------------------------------------------------------------------------------------------------------

is_libtorch() { [[ -e $1/lib/libtorch_cpu.so && -e $1/include/ATen/core/Tensor.h ]]; }

own_libtorch() {
  local prefix
  if [[ -n ${Torch_DIR:-} ]]; then
    is_libtorch "$Torch_DIR/../../.." || fail "Torch_DIR=$Torch_DIR is not the share/cmake/Torch folder of a LibTorch; correct it, or unset it to download one"
    return 0
  fi
  local IFS=':;'
  for prefix in ${CMAKE_PREFIX_PATH:-}; do
    if is_libtorch "$prefix" || is_libtorch "$prefix/torch"; then return 0; fi
  done
  return 1
}

wants_cuda() {
  case ${LEVIN_CUDA:-AUTO} in
    ON) return 0 ;;
    OFF) return 1 ;;
    *) compgen -G '/dev/nvidia[0-9]*' >/dev/null || [[ -e /dev/dxg ]] ;; # the latter under Windows
  esac
}

pip_install() { PIP_ROOT_USER_ACTION=ignore "$python" -m pip install --quiet --disable-pip-version-check --no-cache-dir "$@"; }

# Fills $1 with torch and only those of its dependencies that libtorch_cpu.so is linked to.
download_cpu_part() {
  pip_install --no-deps --target "$1" "torch==$torch_version" typing_extensions || return 1
  local cuda_major
  # One line of a binary file may hold the name several times.
  cuda_major=$(LC_ALL=C grep -aom1 'libcudart\.so\.[0-9]*' "$1/torch/lib/libtorch_cpu.so" | sed -n '1s/.*\.//p' || true)
  case $cuda_major in
    '') ;; # a wheel made without CUDA
    12) pip_install --no-deps --target "$1" nvidia-cuda-runtime-cu12 nvidia-cuda-cupti-cu12 ;;
    *) pip_install --no-deps --target "$1" "nvidia-cuda-runtime==$cuda_major.*" "nvidia-cuda-cupti==$cuda_major.*" ;;
  esac
}

need_pip() {
  ! "$python" -m pip --version >/dev/null 2>&1 || return 0
  command -v apt-get >/dev/null || fail "$1 is downloaded with pip, which $python lacks: install pip${2:-}"
  install_packages python3-pip
  python=/usr/bin/python3
}

# Debian's takes a minute for a source that reads LibTorch's headers, since it looks at all of them: newer ones take two seconds.
download_clang_tidy() {
  local version folder
  version=$(<"$(dirname "$0")/../cmake/clang_tidy_version.txt")
  folder=$cache/clang-tidy-$version
  [[ ! -x $folder/clang_tidy/data/bin/clang-tidy ]] || return 0
  mkdir -p "$cache"
  need_pip clang-tidy
  say "downloading clang-tidy $version into $folder; this is done once"
  rm -rf "$folder.partial"
  if ! pip_install --no-deps --target "$folder.partial" "clang-tidy==$version"; then
    say "clang-tidy $version could not be downloaded (see above); going on with Debian's, which is slower"
    install_packages clang-tidy-14
    return
  fi
  rm -rf "$folder"
  mv "$folder.partial" "$folder"
}

# Downloads into $1 by way of a folder beside it, so that an interrupted download never looks whole.
download_libtorch() {
  local folder=$1 part=$2 needed_gib=$3
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9
  ! is_libtorch "$folder/torch" || return 0
  need_pip LibTorch ", or give a LibTorch of your own with Torch_DIR"
  local free_gib=$(($(df -Pk "$cache" | awk 'NR == 2 {print $4}') / 1048576))
  ((free_gib >= needed_gib)) || fail "LibTorch needs $needed_gib GiB in $cache, where $free_gib GiB are free; choose another folder with LEVIN_CACHE"
  rm -rf "$cache"/.partial-*
  local partial=$cache/.partial-$$
  trap 'rm -rf "$cache"/.partial-*' EXIT
  say "downloading LibTorch $torch_version ($part) into $folder; this is done once"
  mkdir "$partial"
  if [[ $part == CPU ]]; then
    download_cpu_part "$partial" || return 1
  else
    # The last has headers that CUDA's own need, and torch's wheel does not ask for.
    pip_install --target "$partial" "torch==$torch_version" "cuda-toolkit[crt]" || return 1
  fi
  is_libtorch "$partial/torch" || return 1
  rm -rf "$folder"
  mv "$partial" "$folder"
}

[[ ${1:-} != site ]] || exit 0
[[ ${1:-} != lint ]] || download_clang_tidy
own_libtorch && exit 0
cpu_folder=$cache/torch-$torch_version-cpu
cuda_folder=$cache/torch-$torch_version-cuda
is_libtorch "$cuda_folder/torch" && exit 0
if wants_cuda; then
  download_libtorch "$cuda_folder" "with CUDA" 12 && exit 0
  say "the CUDA libraries could not be downloaded (see above); going on without them"
fi
is_libtorch "$cpu_folder/torch" && exit 0
download_libtorch "$cpu_folder" CPU 3 ||
  fail "LibTorch could not be downloaded (see above): make \`$python -m pip download torch==$torch_version\` work, or give a LibTorch of your own with Torch_DIR=<libtorch>/share/cmake/Torch"
