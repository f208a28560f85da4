"""Trains the module of digits.py with Lightning and with levin, on the same batches from the same weights, and prints both.

    PYTHONPATH=python python examples/from_python/compare.py build/bin/levin
"""

import csv
import pathlib
import subprocess
import sys
import tempfile

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

import levin_train
from digits import Digits

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = ("train_loss", "val_loss", "val_acc")


class Rows(L.Callback):
    """The metrics of each epoch."""

    def __init__(self):
        self.rows = []

    def on_train_epoch_end(self, trainer, module):
        self.rows.append([float(trainer.callback_metrics[name]) for name in COLUMNS])


def with_lightning(module, train, val):
    def loader(rows):
        table = torch.tensor([[float(number) for number in row] for row in rows])
        return DataLoader(TensorDataset(table[:, :-1].reshape(-1, 1, 8, 8) * 0.0625, table[:, -1].long()), batch_size=32)

    rows = Rows()
    trainer = L.Trainer(max_epochs=6, callbacks=[rows], accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(module, loader(train), loader(val))
    return rows.rows


def with_levin(program, folder):
    subprocess.run([program, "fit", "--config", "digits.yaml", "--config", "config.yaml"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    found = {}
    with open(folder / "logs/version_0/metrics.csv", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(int(row["epoch"]), {}).update({name: value for name, value in row.items() if value})
    return [[float(epoch[name]) for name in COLUMNS] for epoch in found.values()]


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with open(HERE.parent / "digits/data/digits.csv", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    train, val = rows[:1438], rows[1438:]
    torch.manual_seed(42)
    module = Digits()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part, part_rows in (("train.csv", train), ("val.csv", val)):
            with open(folder / part, "w", encoding="utf-8") as file:
                csv.writer(file).writerows(part_rows)
        (folder / "config.yaml").write_text((HERE / "config.yaml").read_text())
        levin_train.export(module, (torch.randn(32, 1, 8, 8), torch.randint(0, 10, (32,))), folder / "digits.pt2")
        ours = with_levin(program, folder)
    theirs = with_lightning(module, train, val)
    print("| epoch | " + " | ".join(f"{name}: Lightning | levin" for name in COLUMNS) + " |")
    print("| --- |" + " --- |" * 6)
    for epoch, (one, other) in enumerate(zip(theirs, ours)):
        print(f"| {epoch} | " + " | ".join(f"{a:.6f} | {b:.6f}" for a, b in zip(one, other)) + " |")
    furthest = max(abs(a - b) for one, other in zip(theirs, ours) for a, b in zip(one, other))
    print(f"furthest apart: {furthest:.2g}")
    return 0 if len(ours) == len(theirs) == 6 and furthest < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
