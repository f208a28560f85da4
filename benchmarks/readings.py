"""Runs a command, and reads a sample out of what it did."""
import csv
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass


class Failed(Exception):
    """A command gave no sample; the message says why."""


@dataclass(frozen=True)
class Finished:
    """What a command did."""
    output: str
    folder: pathlib.Path  # in which it ran
    started: float  # on the monotonic clock, which programs read too
    seconds: float
    peak_memory: int  # bytes


def run(command, folder, environment, limit_seconds=600):
    """Runs a command in a separate folder. Throws Failed, such as when it takes longer; its processes are then ended."""
    with tempfile.TemporaryFile() as output:
        started = time.monotonic()
        try:
            process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        except OSError as error:
            raise Failed(f"{command[0]}: {error.strerror}") from error
        previous = signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
        signal.alarm(limit_seconds)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, previous)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode != 0:
        last_lines = " / ".join(text.strip().splitlines()[-3:])
        raise Failed(f"{' '.join(command[:3])} ended with status {process.returncode}: {last_lines}")
    return Finished(text, pathlib.Path(folder), started, seconds, usage.ru_maxrss * 1024)


def line_of_json(output):
    """The last line that a program has printed for us, among what else it says."""
    for line in reversed(output.splitlines()):
        begin = max(line.rfind('{"value"'), line.rfind('{"at"'))  # a progress bar may stand before it
        if begin >= 0:
            return json.loads(line[begin:])
    raise Failed("it printed no sample")


def work_at_boundary(output, what):
    """A rank's microseconds, and the bytes that it gets, by the number of ranks."""
    work = {}
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.strip("| \n").split("|")]
        if len(cells) == 7 and cells[0] == what:
            work[int(cells[1])] = float(cells[6]), float(cells[4])
    if not {2, 8, 64, 1024} <= work.keys():
        raise Failed(f"scale printed no rows of 2 to 1,024 ranks for {what}")
    return work


def read_scale(output):
    """How the work of a rank, a byte that it gets, grows from 8 to 1,024 ranks."""
    work = work_at_boundary(output, "boundary, 20 metrics")
    return (work[1024][0] / work[1024][1]) / (work[8][0] / work[8][1])


def read_scale_of_objects(output):
    """How the work of a rank grows from 2 to 64 ranks."""
    work = work_at_boundary(output, "boundary, 20 metric objects")
    return work[64][0] / work[2][0]


def read_all_reduce(file):
    """Microseconds, of the group in which gradients travel: Gloo's, unless there is another."""
    with open(file, newline="") as rows:
        seconds = {row["group"]: float(row["seconds"]) for row in csv.DictReader(rows) if row["collective"] == "all_reduce"}
    if not seconds:
        raise Failed(f"{file} has no row of all_reduce")
    others = [value for group, value in seconds.items() if group != "gloo"]
    return (others or list(seconds.values()))[0] * 1e6


READINGS = {
    "value": lambda finished: float(line_of_json(finished.output)["value"]),
    "started": lambda finished: float(line_of_json(finished.output)["at"]) - finished.started,
    "peak": lambda finished: float(line_of_json(finished.output)["peak"]),
    "loading": lambda finished: float(line_of_json(finished.output)["loading"]),
    "megabytes": lambda finished: float(line_of_json(finished.output)["megabytes"]),
    "copies": lambda finished: float(line_of_json(finished.output)["copies"]),
    "peak_memory": lambda finished: finished.peak_memory / 1e6,
    "seconds": lambda finished: finished.seconds,
    "scale": lambda finished: read_scale(finished.output),
    "scale_of_objects": lambda finished: read_scale_of_objects(finished.output),
    "all_reduce": lambda finished: read_all_reduce(finished.folder / "comm.csv"),
}
