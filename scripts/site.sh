#!/usr/bin/env bash
# Makes a site in build/site: the pages of docs/ with mkdocs, and the API below build/site/api with Doxygen, of the public headers.
# A warning of either is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/site-venv
[[ -x $venv/bin/mkdocs ]] || { python3 -m venv "$venv" && "$venv/bin/pip" install --quiet mkdocs==1.6.1 Pygments; }
"$venv/bin/mkdocs" build 2>build/site.log || { cat build/site.log >&2; exit 1; } # --quiet would not count warnings

headers=(scripts/doxygen/main.md)
for list in */public_headers.txt; do
  while read -r header; do
    [[ -z $header || $header == \#* ]] || headers+=("include/levin/${list%/*}/$header")
  done <"$list"
done
warnings=$( (cat scripts/doxygen/Doxyfile && echo "INPUT = ${headers[*]}") | doxygen - 2>&1)
[[ -z $warnings ]] || { echo "$warnings" >&2; exit 1; }

# Search works with the folder alone, without a server.
browser=$(command -v chromium chromium-browser google-chrome | head -1 || true)
if [[ -n $browser ]]; then
  found=$("$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=8000 --dump-dom "file://$PWD/build/site/search.html?q=gradient_clip_val" 2>/dev/null)
  grep -q '<a href="trainer.html' <<<"$found" || { echo "build/site: the search finds nothing of gradient_clip_val" >&2; exit 1; }
fi
echo "build/site/index.html"
