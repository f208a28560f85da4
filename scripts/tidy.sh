#!/usr/bin/env bash
# Runs clang-tidy with the settings of .clang-tidy, and with it clang's own warnings, over C++ sources; a finding ends it with
# status 1.
# Usage: scripts/tidy.sh BUILD_FOLDER [all | SOURCE...]
# Without sources: those that differ from origin/main (from the commit before this one, where there is no such branch or it is
# this commit), and the sources beside headers that differ.
#
# BUILD_FOLDER is configured for clang, each source alone, without precompiled headers, so that a source which does not include
# what it uses is found; nothing is compiled. clang-tidy is the one of scripts/setup.sh lint.
set -euo pipefail
build=$1
shift

sources() { git ls-files -- '*.cpp'; }

# A header is looked at through the source beside it.
changed() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [[ -z $base || $base == $(git rev-parse HEAD) ]]; then base=$(git rev-parse --quiet --verify HEAD~1 || git rev-parse HEAD); fi
  { git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
    sed -n 's/\.\(h\|cpp\)$/.cpp/p' | sort -u | comm -12 - <(sources | sort)
}

case ${1:-} in
  '') mapfile -t files < <(changed) ;;
  all) mapfile -t files < <(sources) ;;
  *) files=("$@") ;;
esac

# Only what the build knows: plug-ins of tests and examples of other build folders have no command.
known=$(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\",\{0,1\}\$|\1|p" "$build/compile_commands.json" | sort -u)
mapfile -t files < <(comm -12 <(printf '%s\n' "${files[@]}" | sort -u) <(printf '%s\n' "$known"))
if ((${#files[@]} == 0)) || [[ -z ${files[0]} ]]; then
  echo "clang-tidy: no source has changed"
  exit 0
fi

clang_tidy=${LEVIN_CACHE:-$HOME/.cache/levin}/clang-tidy-$(<"$(dirname "$0")/../cmake/clang_tidy_version.txt")/clang_tidy/data/bin/clang-tidy
[[ -x $clang_tidy ]] || clang_tidy=clang-tidy-14
echo "clang-tidy: ${#files[@]} sources"
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$(nproc)" "$clang_tidy" -p "$build" --quiet --warnings-as-errors='*' 2> >(grep -v 'warnings\? generated\|Suppressed\|Use -header-filter' >&2)
