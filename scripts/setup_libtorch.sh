#!/usr/bin/env bash
# Brings LibTorch from PyPI into a folder that levin finds, unless it is installed: what `make setup` and `levin setup` do.
# Usage: levin setup [--cuda | --cpu] [--quiet]
#   --cuda   with CUDA's libraries, 3.4 GB more, also where there is no GPU
#   --cpu    without them, also where there is one
#   --quiet  says nothing where LibTorch is installed already
#
# Environment:
#   LEVIN_CACHE          where LibTorch is stored, shared by all clones (default ~/.cache/levin)
#   LEVIN_TORCH_VERSION  version of LibTorch (default: the one that this levin is for)
#   LEVIN_CUDA           ON, OFF or AUTO (default): as --cuda and --cpu; AUTO: with CUDA when there is a GPU
#   Torch_DIR, CMAKE_PREFIX_PATH   the LibTorch to build levin with; then none is downloaded
#   PYTHON               the Python whose pip downloads LibTorch (default python3)
set -euo pipefail

say() { printf 'levin setup: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

quiet=
for word in "$@"; do
  case $word in
    --cuda) LEVIN_CUDA=ON ;;
    --cpu) LEVIN_CUDA=OFF ;;
    --quiet) quiet=yes ;;
    -h | --help)
      sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    *)
      say "unknown argument '$word': levin setup [--cuda | --cpu]"
      exit 2
      ;;
  esac
done

torch_version=${LEVIN_TORCH_VERSION:-$(<"$(dirname "$0")/../cmake/torch_version.txt")}
cache=${LEVIN_CACHE:-$HOME/.cache/levin}
python=${PYTHON:-python3}

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

# Downloads into a folder next to $1 and renames that, so that an interrupted download never looks whole.
download_libtorch() {
  local folder=$1 part=$2 needed_gib=$3
  mkdir -p "$cache"
  exec 9>"$cache/.lock"
  flock 9
  ! is_libtorch "$folder/torch" || return 0
  "$python" -m pip --version >/dev/null 2>&1 ||
    fail "LibTorch is downloaded with pip, which $python lacks: install it (python3-pip on Debian), or name a LibTorch that you have"
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

# Ends the script: LibTorch is in this folder.
found() {
  [[ -n $quiet ]] || say "LibTorch $torch_version is in $1"
  exit 0
}

cpu_folder=$cache/torch-$torch_version-cpu
cuda_folder=$cache/torch-$torch_version-cuda
own_libtorch && exit 0
is_libtorch "$cuda_folder/torch" && found "$cuda_folder/torch"
if wants_cuda; then
  download_libtorch "$cuda_folder" "with CUDA" 12 && found "$cuda_folder/torch"
  say "the CUDA libraries could not be downloaded (see above); continuing without them"
fi
is_libtorch "$cpu_folder/torch" && found "$cpu_folder/torch"
download_libtorch "$cpu_folder" CPU 3 && found "$cpu_folder/torch"
fail "LibTorch could not be downloaded (see above): make \`$python -m pip download torch==$torch_version\` work, or give a LibTorch that you have with Torch_DIR=<libtorch>/share/cmake/Torch"
