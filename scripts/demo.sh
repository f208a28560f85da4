#!/usr/bin/env bash
# Trains the digits example on two ranks, tests the best checkpoint, and says where everything lies.
# Usage: scripts/demo.sh BUILD_FOLDER
set -euo pipefail
levin=$1/bin/levin
example=examples/digits
mkdir -p "$1/demo"
run=$(mktemp -d "$1/demo/run-XXXXXX")
"$levin" fit --config "$example/ddp.yaml" --trainer.default_root_dir="$run"
