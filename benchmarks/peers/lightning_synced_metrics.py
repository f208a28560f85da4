"""What benchmarks/synced_metrics.cpp measures, in Lightning. Needs lightning 2.6.6 beside torch 2.13.0; run it by hand.

Usage: OMP_NUM_THREADS=1 python3 lightning_synced_metrics.py [ranks] [rounds]
"""
import logging
import statistics
import sys
import time
import warnings

import lightning.pytorch as pl
import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

STEPS, WARM_UP, BATCH_SIZE = 300, 50, 32


class Mlp(pl.LightningModule):
    def __init__(self, metrics):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
        self.names = [f"metric_{index}" for index in range(metrics)]

    def training_step(self, batch, batch_idx):
        loss = functional.cross_entropy(self.net(batch[0]), batch[1])
        for name in self.names:
            self.log(name, loss, sync_dist=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        if batch_idx == WARM_UP:
            self.started = time.perf_counter()
        if batch_idx == STEPS - 1:
            self.seconds = time.perf_counter() - self.started

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    samples = STEPS * BATCH_SIZE * ranks
    times = {0: [], 1: [], 10: [], 100: []}
    for _ in range(rounds):
        for metrics in times:
            torch.manual_seed(0)
            data = TensorDataset(torch.rand(samples, 64), torch.randint(10, (samples,)))
            trainer = pl.Trainer(
                max_epochs=1, accelerator="cpu", devices=ranks, strategy="ddp", log_every_n_steps=1, logger=False,
                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
            module = Mlp(metrics)
            trainer.fit(module, DataLoader(data, batch_size=BATCH_SIZE))
            times[metrics].append(module.seconds / (STEPS - 1 - WARM_UP) * 1e6)
    if trainer.is_global_zero:
        none = statistics.median(times[0])
        for metrics, values in times.items():
            each = statistics.median(values)
            print(f"lightning: {ranks} ranks, {metrics:3d} metrics with sync_dist: {each:7.0f} us a step, "
                  f"{each - none:+6.0f} us, ratio {each / none:.2f}")


if __name__ == "__main__":
    main()
