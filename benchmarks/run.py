#!/usr/bin/env python3
"""Measures levin and others, and writes a table and a picture.

Usage: run.py --build BUILD_FOLDER [--quick] [--only ROW,ROW] [--out FOLDER] [--samples FILE]

Needs a build, and nothing but Python's standard library; what levin is compared with goes into a virtual environment in the build
folder. A peer that cannot be had is named, and left out. --samples makes table and picture again from the samples of an earlier run.
"""
import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import machine
import peer_environment
import picture
import readings
import report
import rows
import summary

SOURCE = pathlib.Path(__file__).resolve().parent
DATA = ("columns", "images", "shards", "texts")  # what scripts of peers/ make
ROUNDS, PEER_ROUNDS = 10, 5
QUICK_ROUNDS, QUICK_PEER_ROUNDS = 2, 1


class Driver:
    """Takes the samples of rows, one round after the other."""

    def __init__(self, build, python, python_missing, quick, record):
        self.build = pathlib.Path(build).absolute()
        self.python = python
        self.python_missing = python_missing
        self.quick = quick
        self.record = record  # called with each Sample
        self.environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", PYTHONWARNINGS="ignore")

    def places(self):
        sources = sorted((SOURCE.parent / "python/levin_train").glob("*.py")) + [SOURCE / "peers/exported_networks.py"]
        made_by = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
        return {"bin": self.build / "bin", "lib": self.build / "lib", "source": SOURCE, "examples": SOURCE.parent / "examples",
                "python": self.python or "python3", "packages": self.build / "bench" / f"packages-{made_by}",
                **{data: self.build / "bench" / data for data in DATA}}

    def rounds_of(self, row):
        return max(1, round((QUICK_ROUNDS if self.quick else ROUNDS) * (1 if self.quick else row.rounds)))

    def reason_to_leave_out(self, side, number):
        """Why a side takes no part in a round; empty when it does, None when it need not be reported."""
        if side.needs_peers and self.python is None:
            return self.python_missing
        if side.slow and self.quick:
            return "too slow for a quick run"
        if side.is_peer and number >= (QUICK_PEER_ROUNDS if self.quick else PEER_ROUNDS):
            return None
        return ""

    def make_package(self, network):
        """Exports a network, unless this was done before. Gives why that is impossible, or an empty string."""
        file = self.places()["packages"] / f"{network}.pt2"
        if file.exists():
            return ""
        if self.python is None:
            return self.python_missing
        file.parent.mkdir(parents=True, exist_ok=True)
        print(f"benchmarks: exporting {network}; this is done once", file=sys.stderr, flush=True)
        exported = subprocess.run([str(self.python), str(SOURCE / "peers/exported_networks.py"), "export", network, str(file)],
                                  capture_output=True, text=True, check=False)
        return "" if exported.returncode == 0 else "its package cannot be exported: " + exported.stderr.strip().splitlines()[-1]

    def make_data(self, name):
        """Makes a folder of data, as make_package() does."""
        folder = self.places()[name]
        if folder.exists():
            return ""
        if self.python is None:
            return self.python_missing
        made = subprocess.run([str(self.python), str(SOURCE / f"peers/{name}.py"), str(folder)], capture_output=True, text=True, check=False)
        return "" if made.returncode == 0 else "its data cannot be made: " + made.stderr.strip().splitlines()[-1]

    def measure(self, row):
        failed = set()
        missing = self.make_package(row.package) if row.package else self.make_data(row.data) if row.data else ""
        if missing:
            self.record(summary.Sample(row.key, 0, row.levin.name, failed=missing))
            return
        for number in range(self.rounds_of(row)):
            for side in report.sides_of(row):
                reason = self.reason_to_leave_out(side, number)
                if reason == "" and side.name not in failed:
                    sample = self.sample(row, side, number)
                    self.record(sample)
                    if sample.failed:
                        failed.add(side.name)  # once is enough
                elif reason and number == 0:
                    self.record(summary.Sample(row.key, number, side.name, failed=reason))

    def sample(self, row, side, number):
        command = [part.format(**self.places()) for part in side.command]
        # On the disk of the build folder: files that a side writes are to reach one.
        folder = tempfile.mkdtemp(prefix="bench-", dir=self.build)
        try:
            value = readings.READINGS[side.reads](readings.run(command, folder, self.environment))
        except (readings.Failed, ValueError, KeyError, OSError) as error:
            print(f"benchmarks: {row.key}: {side.name}: {error}", file=sys.stderr, flush=True)
            return summary.Sample(row.key, number, side.name, failed=str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return summary.Sample(row.key, number, side.name, value)


def shown_command(command):
    """As it is typed in the repository's folder."""
    places = {"bin": "build/bin", "lib": "build/lib", "source": "benchmarks", "examples": "examples",
              "python": "build/bench-venv/bin/python", "packages": "build/bench/packages",
              **{data: f"build/bench/{data}" for data in DATA}}
    return [part.format(**places) for part in command]


def write_results(folder, all_rows, samples, facts, quick):
    folder.mkdir(parents=True, exist_ok=True)
    summaries = [summary.summarize(row, samples) for row in all_rows]
    (folder / "results.svg").write_text(picture.draw(summaries))
    (folder / "results.md").write_text(report.write(summaries, facts, quick, shown_command, "results.svg"))
    print("\n".join(report.table(summaries)))
    print(f"\nWritten: {folder / 'results.md'} and results.svg")


def read_samples(file):
    """Samples of an earlier run, and what was noted with them."""
    lines = [json.loads(line) for line in pathlib.Path(file).read_text().splitlines()]
    noted = next(line for line in lines if "facts" in line)
    return [summary.Sample(**line) for line in lines if "row" in line], noted["facts"], noted["quick"]


def take_samples(arguments, chosen, samples_file):
    python, missing = None, ""
    if any(row.package or side.needs_peers for row in chosen for side in report.sides_of(row)):
        try:
            python = peer_environment.make(arguments.build, SOURCE)
        except peer_environment.Unavailable as error:
            missing = f"its environment could not be made: {error}"
            print(f"benchmarks: peers in Python are left out: {missing}", file=sys.stderr, flush=True)
    facts = machine.describe(arguments.build, SOURCE.parent, python)
    samples = []
    with open(samples_file, "w") as recorded:

        def record(entry):
            recorded.write(json.dumps(entry) + "\n")
            recorded.flush()

        def record_sample(sample):
            samples.append(sample)
            record({name: value for name, value in dataclasses.asdict(sample).items() if value not in (None, "")})

        record({"facts": facts, "quick": arguments.quick})
        driver = Driver(arguments.build, python, missing, arguments.quick, record_sample)
        started = time.monotonic()
        for row in chosen:
            if row.levin is not None:
                print(f"{time.monotonic() - started:5.0f} s  {row.key}", file=sys.stderr, flush=True)
                driver.measure(row)
    return samples, facts, arguments.quick


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--quick", action="store_true", help="few repetitions; writes to the build folder")
    parser.add_argument("--only", default="", help="keys of rows; the others are left out")
    parser.add_argument("--out", type=pathlib.Path, help="folder of results.md; with --quick or --only the build folder's bench")
    parser.add_argument("--samples", type=pathlib.Path, help="recorded samples to make table and picture of")
    arguments = parser.parse_args()
    chosen = rows.all_rows(machine.cores())
    if arguments.only:
        keys = arguments.only.split(",")
        if unknown := set(keys) - {row.key for row in chosen}:
            parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(row.key for row in chosen)}")
        chosen = [row for row in chosen if row.key in keys]
    own_folder = arguments.build / "bench"
    own_folder.mkdir(parents=True, exist_ok=True)
    if arguments.samples:
        samples, facts, quick = read_samples(arguments.samples)
    else:
        samples, facts, quick = take_samples(arguments, chosen, own_folder / "samples.jsonl")
    partial = quick or bool(arguments.only)
    write_results(arguments.out or (own_folder if partial else SOURCE), chosen, samples, facts, quick)


if __name__ == "__main__":
    main()
