#!/usr/bin/env python3
"""What `levin report` takes for a run of 100 metrics, a million rows, and 64 ranks with 20,000 rows each.

Usage: benchmarks/large_report.py [LEVIN] [--rows N] [--rank_rows N] [--ranks N] [--metrics N]
Makes the run in a temporary folder (4 GB), and prints the time, the size of the page and the most memory.
"""
import argparse
import json
import math
import os
import random
import resource
import struct
import subprocess
import tempfile
import time

PATTERNS = 997  # rows that differ; a file repeats them


def bodies(metrics, seed):
    """The cells of rows, as CSVLogger writes 32-bit floats."""
    random.seed(seed)
    rows = []
    for row in range(PATTERNS):
        values = (math.exp(-row / 300) + random.random() * 0.1 for _ in range(metrics))
        rows.append(",".join(repr(struct.unpack("f", struct.pack("f", value))[0]) for value in values) + "\n")
    return rows


def write_metrics(file, rows, metrics, seed):
    patterns = bodies(metrics, seed)
    with open(file, "w", buffering=1 << 20) as out:
        out.write("epoch,step," + ",".join(f"metric_{index}" for index in range(metrics)) + "\n")
        for step in range(rows):
            out.write(f"{step // 1000},{step},{patterns[step % PATTERNS]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("levin", nargs="?", default="build/bin/levin")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rank_rows", type=int, default=20_000)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--metrics", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = os.path.join(folder, "version_0")
        os.mkdir(run)
        write_metrics(os.path.join(run, "metrics.csv"), options.rows, options.metrics, 0)
        for rank in range(options.ranks):
            write_metrics(os.path.join(run, f"metrics_rank_{rank}.csv"), options.rank_rows, options.metrics, rank + 1)
        size = sum(os.path.getsize(os.path.join(run, name)) for name in os.listdir(run))
        page = os.path.join(folder, "report.html")
        begin = time.monotonic()
        subprocess.run(["taskset", "-c", "0", options.levin, "report", run, "-o", page], check=True)
        seconds = time.monotonic() - begin
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        megabytes = os.path.getsize(page) / 1e6
        print(f"{size / 1e9:.2f} GB of CSV: {seconds:.1f} s ({usage.ru_utime:.1f} s user, {usage.ru_stime:.1f} s system) on one core, "
              f"page {megabytes:.2f} MB, memory {usage.ru_maxrss / 1024:.0f} MiB")
        print(json.dumps({"value": seconds, "megabytes": megabytes}))


if __name__ == "__main__":
    main()
