"""levin_train.metrics(): what a run has logged."""

from __future__ import annotations

import csv
import io
import math
import os

_FILE = "metrics.csv"
_WHOLE = {"epoch", "step", "evaluation_batch"}


class Metrics(dict[str, list]):
    """The columns of a metrics.csv by name: whole numbers for epoch, step and evaluation_batch, else floats, NaN where a row has no
    value."""

    def values_of(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of each row in which the metric was logged. Raises KeyError, saying what there is."""
        if name not in self:
            raise KeyError(f"'{name}' was not logged. There is {', '.join(self)}.")
        return [(step, value) for step, value in zip(self["step"], self[name]) if not math.isnan(value)]

    def frame(self):
        """As a pandas.DataFrame. Raises ImportError without pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("levin_train.metrics(…).frame() needs pandas: pip install pandas") from error
        return pandas.DataFrame(self)


def metrics(path: str | os.PathLike) -> Metrics:
    """The metrics.csv of a run's folder, or such a file: a list for each column, with an element for each row, in its order. A last row
    that is being written is left out.

    Raises FileNotFoundError, saying what is in the folder, where there is no such file.
    """
    path = os.fspath(path)
    file = os.path.join(path, _FILE) if os.path.isdir(path) else path
    if not os.path.exists(file):
        folder = os.path.dirname(file) or "."
        runs = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.startswith("version_"))
        hint = f" Runs in it: {', '.join(runs)}." if runs else ""
        raise FileNotFoundError(f"'{folder}' has no {os.path.basename(file)}: name the folder of a run, such as logs/version_0.{hint}")
    with open(file, "rb") as opened:
        content = opened.read()
    header, *rows = list(csv.reader(io.StringIO(content[: content.rfind(b"\n") + 1].decode(), newline=""))) or [[]]
    return Metrics((name, [_number(name, row[index]) for row in rows]) for index, name in enumerate(header))


def _number(name, text):
    if text and name in _WHOLE:
        return int(text)
    return float(text) if text else math.nan
