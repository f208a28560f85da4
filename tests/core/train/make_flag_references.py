#!/usr/bin/env python3
"""Writes flag_references.json: what Lightning does with flags and monitors that levin has too, and psutil with files of /proc.

    python3 -m pip install lightning==2.6.6 psutil==7.2.2 && python3 make_flag_references.py
"""
import json
import logging
import pathlib
import tempfile
import warnings

import lightning.pytorch as pl
import psutil
import torch
from lightning.pytorch.callbacks import DeviceStatsMonitor, LearningRateMonitor
from lightning.pytorch.loggers.logger import Logger
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Rows(Logger):
    name = "rows"
    version = 0

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_hyperparams(self, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step):
        self.rows.append([step, dict(metrics)])


class Net(pl.LightningModule):
    """One weight; counts whatever it is asked for."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5]))
        self.other = torch.nn.Parameter(torch.tensor([0.5]))
        self.seen = {"train": [], "val": []}
        self.asked = {"train": [], "val": []}

    def loader(self, stage, rows, batch_size=2, shuffle=False):
        self.asked[stage].append(self.current_epoch)
        return DataLoader(TensorDataset(torch.arange(1.0, rows + 1)), batch_size=batch_size, shuffle=shuffle)

    def train_dataloader(self):
        return self.loader("train", **self.train_rows)

    def val_dataloader(self):
        return self.loader("val", **self.val_rows)

    def training_step(self, batch, batch_idx):
        self.seen["train"].append(batch[0].tolist())
        loss = (self.weight * batch[0]).mean()
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        if not self.trainer.sanity_checking:
            self.seen["val"].append(batch[0].tolist())
        self.log("val_loss", (self.weight * batch[0]).mean(), on_step=True, on_epoch=True)

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD([self.weight], lr=0.5)


def run(callbacks=(), validate=False, test=False, train=5, val=3, shuffle=False, **flags):
    net = Net()
    net.train_rows = {"rows": 2 * train, "shuffle": shuffle}
    net.val_rows = {"rows": 2 * val, "shuffle": shuffle}
    rows = Rows()
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(accelerator="cpu", logger=rows, callbacks=list(callbacks), enable_checkpointing=False, enable_progress_bar=False,
                             enable_model_summary=False, default_root_dir=folder, **flags)
        if validate:
            trainer.validate(net, verbose=False)
        trainer.fit(net)
        if test:
            trainer.test(net, net.loader("val", 2 * val), verbose=False)
    return net, rows.rows


def validation_before_training():
    return run(validate=True, max_epochs=1, num_sanity_val_steps=0, log_every_n_steps=1)[1]


def device_stats():
    """[step, hook, statistics] of each row, in order."""
    found = []
    for step, row in run(callbacks=[DeviceStatsMonitor()], test=True, max_epochs=2, log_every_n_steps=2)[1]:
        keys = [key.removeprefix("DeviceStatsMonitor.").split("/") for key in sorted(row) if key.startswith("DeviceStatsMonitor.")]
        if keys:
            found.append([step, keys[0][0], " ".join(name for _, name in keys)])
    return found


def grown_rates():
    class AddsGroup(pl.Callback):
        def on_train_epoch_start(self, trainer, net):
            if trainer.current_epoch == 1:
                trainer.optimizers[0].add_param_group({"params": [net.other], "lr": 0.25})

    monitor = LearningRateMonitor(logging_interval="epoch")
    run(callbacks=[AddsGroup(), monitor], max_epochs=3, log_every_n_steps=1)
    return {name: len(rates) for name, rates in monitor.lrs.items()}


def overfitted():
    return run(overfit_batches=2, shuffle=True, max_epochs=2, num_sanity_val_steps=0, log_every_n_steps=1)[0].seen


def reloaded():
    asked = {}
    for every in (0, 1, 2, 3):
        asked[str(every)] = run(reload_dataloaders_every_n_epochs=every, max_epochs=5, log_every_n_steps=1)[0].asked
    return asked


LOOKS = [("cpu  1000 20 300 9000 50 6 7 8 40 10", 8000000, 2000000, 1000000, 750000),
         ("cpu  1234 25 400 9600 45 6 9 12 60 10", 8000000, 1999999, 1000000, 1000000),
         ("cpu  1234 25 400 9700 45 6 9 12 60 10", 8000000, 8000000, 0, 0)]


def host_load():
    """Of each look: its files, and cpu_percent, which needs an earlier look, cpu_vm_percent, cpu_swap_percent."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        psutil.PROCFS_PATH = folder
        for stat, total, available, swap, free in LOOKS:
            stat += "\n" + stat.replace("cpu ", "cpu0") + "\nctxt 5\n"
            meminfo = (f"MemTotal:       {total} kB\nMemFree:  1 kB\nMemAvailable: {available} kB\nBuffers: 0 kB\nCached: 0 kB\n"
                       f"HugePages_Total: 0\nSwapTotal: {swap} kB\nSwapFree: {free} kB\n")
            pathlib.Path(folder, "stat").write_text(stat)
            pathlib.Path(folder, "meminfo").write_text(meminfo)
            pathlib.Path(folder, "vmstat").write_text("pswpin 0\npswpout 0\n")
            load = [psutil.cpu_percent(), psutil.virtual_memory().percent, psutil.swap_memory().percent]
            found.append([stat, meminfo, load])
        psutil.PROCFS_PATH = "/proc"
    found[0][2][0] = None
    return found


references = {"validation_before_training": validation_before_training(), "device_stats": device_stats(), "grown_rates": grown_rates(),
              "overfitted": overfitted(), "reloaded": reloaded(), "host_load": host_load()}
file = pathlib.Path(__file__).parent / "flag_references.json"
lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in references.items()]
file.write_text("{" + ",\n ".join(lines) + "}\n")
