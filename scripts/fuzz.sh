#!/usr/bin/env bash
# Runs libFuzzer programs, one after the other, each from its corpus in tests/fuzz/corpus.
# Usage: scripts/fuzz.sh BUILD_FOLDER SECONDS [TARGET...]      Without targets: all of them.
#
# What a program learns stays in BUILD_FOLDER/corpus/TARGET, for the next run. An input that it finds wrong is written to
# BUILD_FOLDER/finds/TARGET-…, and ends the script with status 1 after all targets have run: fix the cause, and store the input in
# tests/fuzz/corpus/TARGET under a name that says what it is.
set -euo pipefail
build=$1
seconds=$2
shift 2

targets=("$@")
if ((${#targets[@]} == 0)); then
  for program in "$build"/bin/*_fuzzer; do
    name=${program##*/}
    targets+=("${name%_fuzzer}")
  done
fi

mkdir -p "$build/finds"
failed=()
for target in "${targets[@]}"; do
  learnt=$build/corpus/$target
  mkdir -p "$learnt"
  dictionary=tests/fuzz/$target.dict
  options=(-max_total_time="$seconds" -timeout=30 -report_slow_units=30 -rss_limit_mb=3000 -malloc_limit_mb=1000 -artifact_prefix="$build/finds/$target-")
  [[ ! -e $dictionary ]] || options+=(-dict="$dictionary")
  # HDF5 asks for the sizes that a file states, before it finds that the file is shorter: memory that nobody touches.
  [[ $target != hdf5 ]] || options+=(-malloc_limit_mb=1000000)
  echo "== $target"
  "$build/bin/${target}_fuzzer" "${options[@]}" -print_final_stats=1 "$learnt" "tests/fuzz/corpus/$target" || failed+=("$target")
done
if ((${#failed[@]} > 0)); then
  echo "finds: ${failed[*]}; the inputs are in $build/finds" >&2
  exit 1
fi
