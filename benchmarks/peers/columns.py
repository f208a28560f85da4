"""What columns.cpp measures, with pandas and torch's DataLoader. Usage: columns.py FOLDER run | columns.py FOLDER, which makes the file"""
import json
import pathlib
import sys
import time

ROWS, NUMBERS = 200_000, 16


def make(folder):
    import numpy
    import pandas

    random = numpy.random.default_rng(1)
    folder.mkdir(parents=True)
    columns = {f"x{index}": random.standard_normal(ROWS).astype("f4") for index in range(NUMBERS)}
    columns |= {name: random.choice([f"{name}_{index}" for index in range(count)], ROWS) for name, count in (("city", 100), ("kind", 8))}
    pandas.DataFrame({**columns, "label": random.integers(10, size=ROWS)}).to_parquet(folder / "rows.parquet")


def epoch(file):
    import pandas
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    table = pandas.read_parquet(file)
    for name in ("city", "kind"):
        table[name] = table[name].astype("category").cat.codes
    labels = torch.tensor(table.pop("label").to_numpy())
    features = torch.tensor(table.to_numpy(dtype="float32"))
    features = (features - features.mean(0)) / features.std(0, correction=0)
    loader = DataLoader(TensorDataset(features, labels), batch_size=256, shuffle=True)
    return sum(len(label) for _, label in loader)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    if len(sys.argv) < 3:
        make(folder)
        sys.exit()
    import torch

    torch.set_num_threads(1)
    for turn in range(2):
        started = time.perf_counter()
        assert epoch(folder / "rows.parquet") == ROWS
        if turn > 0:
            print(json.dumps({"value": time.perf_counter() - started}), flush=True)
