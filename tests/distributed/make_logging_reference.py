#!/usr/bin/env python3
"""Writes logging_reference.json: what Lightning 2.6.6 shows and writes of the metrics that a module logs on two ranks.

    python3 tests/distributed/make_logging_reference.py tests/distributed/logging_reference.json

Values are rounded to what float32, in which Lightning stores them, holds.
"""
import csv
import itertools
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

RANKS = 2
BATCH = 4
LEVELS = {"s": (True, False), "e": (False, True), "se": (True, True)}
SYNC = {"true": True, "false": False}
REDUCE = ["mean", "sum", "max"]
# `places`: the hooks at which views are recorded.
CASES = {
    "even": {"train": 13, "val": [12], "accumulate": 1, "log_every": 1,
             "places": ["epoch 1 on_train_batch_end 1", "epoch 1 on_validation_end", "after fit"]},
    "accumulated": {"train": 24, "val": [8], "accumulate": 2, "log_every": 1, "places": []},
    "rare": {"train": 32, "val": [8], "accumulate": 1, "log_every": 3, "places": []},
    "loaders": {"train": 8, "val": [8, 12], "accumulate": 1, "log_every": 1, "places": ["after fit", "after test"]},
}


def keys(epoch_only):
    """Name, and the options of log()."""
    for level, sync, reduce in itertools.product(["e"] if epoch_only else LEVELS, SYNC, REDUCE):
        on_step, on_epoch = LEVELS[level]
        options = {"on_step": on_step, "on_epoch": on_epoch, "reduce_fx": reduce, "prog_bar": reduce == "mean",
                   "sync_dist": SYNC[sync]}
        yield f"{level}_{sync}_{reduce}", options


def plain(metrics):
    return {name: float(f"{float(value):.7g}") for name, value in metrics.items()}


def run_rank(case, folder):
    import lightning.pytorch as pl
    import torch
    from lightning.pytorch.loggers import CSVLogger
    from lightning.pytorch.strategies import DDPStrategy

    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    seen = []

    def snapshot(trainer, place):
        if place not in case["places"]:
            return
        for view in ("callback_metrics", "logged_metrics", "progress_bar_metrics"):
            seen.append([place, view, plain(getattr(trainer, view))])

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def log_all(self, prefix, value, epoch_only=False):
            for name, options in keys(epoch_only):
                self.log(prefix + name, value, **options)

        def training_step(self, batch, batch_idx):
            self.log_all("t_", batch.mean())
            self.log("t_default", batch.mean())
            self.log_dict({"t_first": batch[0], "t_last": batch[-1]}, prog_bar=True, on_epoch=True)
            self.log("t_hidden", batch.mean(), logger=False, on_epoch=True)
            self.log("t_weighted", batch.mean(), on_epoch=True, sync_dist=True, batch_size=3)
            if self.trainer.is_global_zero:
                self.log("t_rank_zero", batch.mean(), on_epoch=True, rank_zero_only=True)
            return (self.weight * batch).mean()

        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.log_all("v_", batch.mean())
            self.log("v_default", batch.mean(), prog_bar=True)
            if dataloader_idx == 0:
                self.log("v_shared", batch.mean(), sync_dist=True, add_dataloader_idx=False)
            if self.trainer.is_global_zero:
                self.log("v_rank_zero", batch.mean(), rank_zero_only=True)

        def test_step(self, batch, batch_idx, dataloader_idx=0):
            self.log_all("x_", batch.mean())

        def on_train_epoch_end(self):
            self.log_all("te_", float(2 * self.current_epoch + self.global_rank + 1), epoch_only=True)

        def on_validation_epoch_end(self):
            self.log_all("ve_", float(3 * self.current_epoch + self.global_rank), epoch_only=True)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    class Watch(pl.Callback):
        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            snapshot(trainer, f"epoch {trainer.current_epoch} on_train_batch_end {batch_idx}")

        def on_train_epoch_end(self, trainer, module):
            snapshot(trainer, f"epoch {trainer.current_epoch} on_train_epoch_end")

        def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
            place = "on_validation_batch_end" if trainer.state.fn == "fit" else "validate on_validation_batch_end"
            snapshot(trainer, f"epoch {trainer.current_epoch} {place} {dataloader_idx} {batch_idx}")

        def on_validation_end(self, trainer, module):
            if trainer.state.fn == "fit":
                snapshot(trainer, f"epoch {trainer.current_epoch} on_validation_end")

    def loader(count):
        return torch.utils.data.DataLoader(torch.arange(count, dtype=torch.float32), batch_size=BATCH)

    trainer = pl.Trainer(
        max_epochs=2, accelerator="cpu", devices=RANKS, strategy=DDPStrategy(process_group_backend="gloo"),
        logger=CSVLogger(folder, name="", version="run"), callbacks=[Watch()], enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        log_every_n_steps=case["log_every"], accumulate_grad_batches=case["accumulate"])
    module = Module()
    evaluation = [loader(count) for count in case["val"]]
    trainer.fit(module, loader(case["train"]), evaluation)
    snapshot(trainer, "after fit")
    tested = trainer.test(module, evaluation, verbose=False)
    snapshot(trainer, "after test")
    for index, metrics in enumerate(tested):
        seen.append([f"test result {index}", "result", plain(metrics)])
    pathlib.Path(folder, f"rank_{trainer.global_rank}.json").write_text(json.dumps(seen))


def run_case(case):
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}", "--master-port=0",
                   "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", __file__, "--rank", json.dumps(case), folder]
        subprocess.run(command, check=True, env=dict(os.environ, OMP_NUM_THREADS="1"), timeout=300)
        ranks = [json.loads(pathlib.Path(folder, f"rank_{rank}.json").read_text()) for rank in range(RANKS)]
        with open(pathlib.Path(folder, "run", "metrics.csv")) as file:
            rows = [plain({name: cell for name, cell in row.items() if cell}) for row in csv.DictReader(file)]
    return {"settings": case, "ranks": ranks, "rows": rows}


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        run_rank(json.loads(sys.argv[2]), sys.argv[3])
    else:
        reference = {name: run_case(case) for name, case in CASES.items()}
        pathlib.Path(sys.argv[1]).write_text(json.dumps(reference, indent=0, separators=(",", ":")))
