#!/usr/bin/env bash
# Trains the digits example on two ranks, tests its best checkpoint, and says where everything lies.
# Usage: scripts/demo.sh BUILD_FOLDER
set -euo pipefail
levin=$1/bin/levin
config=examples/digits/ddp.yaml
demo=$1/demo

"$levin" fit --config "$config" --trainer.default_root_dir="$demo"

run=$(find "$demo/logs" -maxdepth 1 -name 'version_*' | sort -V | tail -1)
best=$(find "$run/checkpoints" -name '*.ckpt' ! -name last.ckpt | head -1)
tested=$(mktemp -d)
trap 'rm -rf "$tested"' EXIT
"$levin" test --config "$config" --ckpt_path "$best" --trainer.default_root_dir="$tested" >"$tested/output.txt" 2>&1 ||
  { cat "$tested/output.txt"; exit 1; }
accuracy=$(awk -F, 'NR == 1 {for (i = 1; i <= NF; ++i) if ($i == "test_acc") column = i}
                    NR > 1 && $column != "" {printf "%.4f", $column}' "$tested/logs/version_0/metrics.csv")

cat <<END

Trained on two ranks with $config. What came of it:
  metrics            $run/metrics.csv
  each rank's own    $run/metrics_rank_0.csv
                     $run/metrics_rank_1.csv
  best checkpoint    $best
  config of the run  $run/config.yaml
  test accuracy      $accuracy (of the best checkpoint, on a fifth of the images held out)

Again:  $levin fit --config $run/config.yaml
END
