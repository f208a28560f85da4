"""levin_train.metrics(): what a run has logged, as a pandas frame."""

import io
import os

_FILE = "metrics.csv"


def metrics(path):
    """The metrics.csv of a run's folder, or such a file, as a pandas.DataFrame: a row for each row, in its order, and a column for each
    metric, besides epoch, step and evaluation_batch as far as they are in the file. What was not logged in a row is NaN. A last row that is being
    written is left out.

    Raises FileNotFoundError, saying what is in the folder, where there is no such file, and ImportError without pandas.
    """
    path = os.fspath(path)
    file = os.path.join(path, _FILE) if os.path.isdir(path) else path
    if not os.path.exists(file):
        folder = os.path.dirname(file) or "."
        runs = sorted(name for name in (os.listdir(folder) if os.path.isdir(folder) else []) if name.startswith("version_"))
        hint = f" Runs in it: {', '.join(runs)}." if runs else ""
        raise FileNotFoundError(f"'{folder}' has no {os.path.basename(file)}: name the folder of a run, such as logs/version_0.{hint}")
    try:
        import pandas
    except ImportError as error:
        raise ImportError("levin_train.metrics() gives a frame of pandas, which is not installed: pip install pandas") from error
    with open(file, "rb") as opened:
        content = opened.read()
    return pandas.read_csv(io.BytesIO(content[: content.rfind(b"\n") + 1]))
