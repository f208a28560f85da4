#!/usr/bin/env bash
# Runs clang-tidy with the settings of .clang-tidy, and with it clang's own warnings, over C++ sources; a finding ends it with
# status 1.
# Usage: scripts/tidy.sh BUILD_FOLDER [library | all | SOURCE...]
# Without sources: those that differ from origin/main (from the commit before this one, where there is no such branch or it is
# this commit), and the sources of headers that differ, each alone. `all`: every source; `library`: all but tests. These two
# take the sources together that a build compiles together: most of the time goes into the headers that they share.
#
# BUILD_FOLDER is configured for clang, without precompiled headers: with LEVIN_UNITY=ON for `library` and `all`; for others with
# LEVIN_UNITY=OFF, so that a source which does not include what it uses is found. Nothing is compiled. clang-tidy is the one of
# scripts/setup.sh lint.
set -euo pipefail
build=$1
shift

sources() { git ls-files -- '*.cpp'; }

# A header is checked through its source.
changed() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [[ -z $base || $base == $(git rev-parse HEAD) ]]; then base=$(git rev-parse --quiet --verify HEAD~1 || git rev-parse HEAD); fi
  { git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
    sed -n 's/\.\(h\|cpp\)$/.cpp/p' | sort -u | comm -12 - <(sources | sort)
}

# Only what the build knows: plug-ins of tests and examples of other build folders have no command.
known=$(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\",\{0,1\}\$|\1|p" "$build/compile_commands.json" | sort -u)
# Of a unit, which includes its sources, clang-tidy takes them for headers.
flags=(--header-filter="^$PWD/" --checks=-bugprone-suspicious-include)
ours() { grep -v '/cmake_pch\.\|\.pb\.cc$\|^cmake/'; }
case ${1:-} in
  '') mapfile -t files < <(changed); flags=() ;;
  all) mapfile -t files < <(ours <<<"$known") ;;
  library) mapfile -t files < <(ours <<<"$known" | grep -v "^\($build/\)\{0,1\}tests/") ;;
  *) files=("$@"); flags=() ;;
esac
mapfile -t files < <(comm -12 <(printf '%s\n' "${files[@]}" | sort -u) <(printf '%s\n' "$known"))
if ((${#files[@]} == 0)) || [[ -z ${files[0]} ]]; then
  echo "clang-tidy: no source has changed"
  exit 0
fi

clang_tidy=${LEVIN_CACHE:-$HOME/.cache/levin}/clang-tidy-$(<"$(dirname "$0")/../cmake/clang_tidy_version.txt")/clang_tidy/data/bin/clang-tidy
[[ -x $clang_tidy ]] || clang_tidy=clang-tidy-14
echo "clang-tidy: ${#files[@]} sources"
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" "$clang_tidy" -p "$build" --quiet --warnings-as-errors='*' "${flags[@]}" 2> >(grep -v 'warnings\? generated\|Suppressed\|Use -header-filter' >&2)
