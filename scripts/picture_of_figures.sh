#!/usr/bin/env bash
# Makes the pictures of figures in docs/trackers.md: trains the digits with a test's callback that logs some.
# Usage: scripts/picture_of_figures.sh [BUILD]
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$build/bin/levin" fit --config examples/digits/config.yaml --plugin "$build/lib/libshown_items.so" --trainer.default_root_dir="$folder" \
  --trainer.max_epochs=1 --trainer.limit_train_batches=2 --trainer.log_every_n_steps=1 --trainer.callbacks+=ShownItems
for name in confusion roc accuracy; do cp "$folder"/logs/version_0/media/figures/$name/*.png "docs/images/figure-$name.png"; done
