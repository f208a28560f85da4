#!/usr/bin/env python3
"""Prints what it costs to start ranks on one machine: time and memory of the digits example, by number of ranks.

    benchmarks/start_up.py --build build --ranks 2 16 32 64

Time is that of a whole run with one step, from the command to its end; processor time is all that its processes took, divided
by the ranks. Memory is that of a rank in the middle of training: its proportional share of what it maps (pages that n
processes have count 1/n for each), and what it has alone. The supervisor comes on top; it has none of LibTorch's pages.
"""

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def command(build, ranks, folder, *more):
    return [str(build / "bin/levin"), "fit", "--config", str(ROOT / "examples/digits/config.yaml"),
            f"--trainer.devices={ranks}", f"--trainer.default_root_dir={folder}", "--data.init_args.batch_size=4",
            "--trainer.limit_val_batches=0", "--trainer.num_sanity_val_steps=0", "--trainer.enable_checkpointing=false",
            "--trainer.callbacks=[]", "--trainer.enable_progress_bar=false", *more]


def time_of(build, ranks):
    """Seconds, and seconds of a processor."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.times()
        subprocess.run(command(build, ranks, folder, "--trainer.max_steps=1"), check=True, stdout=subprocess.DEVNULL)
        after = os.times()
    used = after.children_user - before.children_user + after.children_system - before.children_system
    return after.elapsed - before.elapsed, used


def ranks_of(session):
    """The processes of the command's session but the supervisor, which leads it."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == session:
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append(int(entry.name))
    return found


def memory_of(process):
    """Proportional and own MB."""
    values = {}
    for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        values[name] = int(value.split()[0]) / 1024
    return values["Pss"], values["Private_Clean"] + values["Private_Dirty"]


def memory(build, ranks):
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.Popen(command(build, ranks, folder, "--trainer.max_epochs=-1", "--trainer.log_every_n_steps=1"),
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            rows = pathlib.Path(folder) / "logs/version_0/metrics.csv"
            deadline = time.monotonic() + 300
            while not rows.exists() or rows.read_text().count("\n") < 3:
                if run.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the run has not reached its third step\n" + (run.stderr.read() if run.poll() is not None else ""))
                time.sleep(0.05)
            processes = ranks_of(run.pid)
            if len(processes) != ranks:
                raise RuntimeError(f"{len(processes)} processes, and not {ranks}, are ranks")
            measured = [memory_of(process) for process in processes]
        finally:
            run.send_signal(signal.SIGTERM)
            run.communicate()
    return [statistics.mean(values) for values in zip(*measured)]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    options.add_argument("--ranks", type=int, nargs="+", default=[2, 16, 32, 64])
    options.add_argument("--times", type=int, default=3, help="runs of which the median time is taken")
    given = options.parse_args()
    given.build = given.build.resolve()
    print(f"{len(os.sched_getaffinity(0))} cores, {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB")
    print("| ranks | time | processor time of a rank | memory of a rank | its own of that |\n| --- | --- | --- | --- | --- |")
    for ranks in given.ranks:
        seconds, used = (statistics.median(values) for values in zip(*(time_of(given.build, ranks) for _ in range(given.times))))
        shared, own = memory(given.build, ranks)
        print(f"| {ranks} | {seconds:.1f} s | {1000 * used / ranks:.0f} ms | {shared:.0f} MB | {own:.0f} MB |", flush=True)


if __name__ == "__main__":
    main()
