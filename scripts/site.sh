#!/usr/bin/env bash
# Makes a site in build/site: the pages of docs/ with mkdocs, and the API below build/site/api with Doxygen, of the public headers.
# A warning of either is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/site-venv
[[ -x $venv/bin/mkdocs ]] || { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet mkdocs==1.6.1; }
"$venv/bin/mkdocs" build --quiet

headers=(scripts/doxygen/main.md)
for list in */public_headers.txt; do
  while read -r header; do
    [[ -z $header || $header == \#* ]] || headers+=("include/levin/${list%/*}/$header")
  done <"$list"
done
warnings=$( (cat scripts/doxygen/Doxyfile && echo "INPUT = ${headers[*]}") | doxygen - 2>&1)
[[ -z $warnings ]] || { echo "$warnings" >&2; exit 1; }
echo "build/site/index.html"
