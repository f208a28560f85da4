"""What step_overhead.cpp and synced_metrics.cpp measure, in other programs' ways: the digits' MLP, batches of 32 a rank, one thread.

Usage: training.py pytorch|lightning|fabric|accelerate|ddp [--ranks N] [--synced-metrics N] [--first-step] [--small]

Prints one line of JSON: microseconds a step, or, with --first-step, when the first step has ended.
pytorch is a loop by hand that logs and saves as the others do; ddp is one by hand that does neither, started by torchrun.
With --small, pytorch and fabric train one layer with SGD, for ten times as many steps, and neither logs nor saves.
"""
import argparse
import csv
import json
import logging
import os
import time
import warnings

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, BATCH_SIZE, WARM_UP_EPOCHS, EPOCHS, LOG_EVERY_STEPS, METRICS = 1472, 32, 3, 13, 50, 10


def make_net():
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def make_loader(ranks=1, sampler=None):
    data = TensorDataset(torch.rand(SAMPLES * ranks, 64), torch.randint(10, (SAMPLES * ranks,)))
    return DataLoader(data, batch_size=BATCH_SIZE, shuffle=sampler is None, sampler=sampler and sampler(data))


class StepClock:
    """Counts steps, and measures those after the first epochs."""

    def __init__(self, tells_first_step):
        self.tells_first_step = tells_first_step
        self.steps = 0
        self.started = None

    def step(self):
        self.steps += 1
        if self.steps == 1 and self.tells_first_step:
            print(json.dumps({"at": time.monotonic()}), flush=True)
        if self.steps == WARM_UP_EPOCHS * SAMPLES // BATCH_SIZE:
            self.started, self.before = time.perf_counter(), self.steps

    def microseconds(self):
        return (time.perf_counter() - self.started) / (self.steps - self.before) * 1e6


def run_loop(clock, net, optimizer, loader, backward, save, epochs=EPOCHS):
    """The loop that PyTorch's tutorial shows; with a row of metrics now and then, and the state after each epoch."""
    with open("metrics.csv", "w", newline="") as file:
        rows = csv.writer(file)
        for epoch in range(epochs):
            for images, labels in loader:
                optimizer.zero_grad()
                loss = functional.cross_entropy(net(images), labels)
                backward(loss)
                optimizer.step()
                clock.step()
                if clock.tells_first_step:
                    return
                if save and clock.steps % LOG_EVERY_STEPS == 0:
                    rows.writerow([epoch, clock.steps] + [loss.item()] * METRICS)
            if save:
                save()


def small(setup):
    """One layer and its loop's arguments, as `setup` gives them."""
    net = torch.nn.Linear(64, 10)
    return setup(net, torch.optim.SGD(net.parameters(), 1e-3), make_loader())


def run_fabric(arguments, clock):
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator="cpu", devices=1)
    net, optimizer, loader = small(lambda net, optimizer, loader: (*fabric.setup(net, optimizer), fabric.setup_dataloaders(loader)))
    run_loop(clock, net, optimizer, loader, fabric.backward, None, 10 * EPOCHS)


def run_pytorch(arguments, clock):
    if arguments.small:
        return run_loop(clock, *small(lambda *parts: parts), lambda loss: loss.backward(), None, 10 * EPOCHS)
    net = make_net()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    run_loop(clock, net, optimizer, make_loader(), lambda loss: loss.backward(),
             lambda: torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt"))


def run_ddp(arguments, clock):
    torch.distributed.init_process_group("gloo")
    net = torch.nn.parallel.DistributedDataParallel(make_net())
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    run_loop(clock, net, optimizer, make_loader(arguments.ranks, torch.utils.data.DistributedSampler),
             lambda loss: loss.backward(), None)


def run_accelerate(arguments, clock):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    net = make_net()
    net, optimizer, loader = accelerator.prepare(net, torch.optim.Adam(net.parameters(), 1e-3), make_loader())
    run_loop(clock, net, optimizer, loader, accelerator.backward, lambda: accelerator.save_state("checkpoint"))


def run_lightning(arguments, clock):
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint, TQDMProgressBar
    from lightning.pytorch.loggers import CSVLogger

    synced = arguments.synced_metrics

    class Mlp(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = make_net()

        def training_step(self, batch, batch_idx):
            loss = functional.cross_entropy(self.net(batch[0]), batch[1])
            if synced is not None:
                for index in range(synced):
                    self.log(f"metric_{index}", loss, sync_dist=True)
            elif arguments.ranks == 1:
                self.log("train_loss", loss, on_step=True, on_epoch=True, prog_bar=True)
                for index in range(1, METRICS):
                    self.log(f"metric_{index}", loss)
            return loss

        def on_train_batch_end(self, outputs, batch, batch_idx):
            clock.step()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), 1e-3)

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    options = dict(max_epochs=EPOCHS, accelerator="cpu", devices=arguments.ranks, enable_model_summary=False)
    if arguments.ranks > 1:
        options.update(strategy="ddp", logger=False, enable_checkpointing=False, enable_progress_bar=False,
                       log_every_n_steps=1 if synced is not None else LOG_EVERY_STEPS)
    else:
        options.update(logger=CSVLogger("."), log_every_n_steps=LOG_EVERY_STEPS,
                       callbacks=[TQDMProgressBar(), ModelCheckpoint(),
                                  EarlyStopping("train_loss_epoch", patience=EPOCHS, check_on_train_epoch_end=True)])
    if clock.tells_first_step:
        options.update(max_epochs=None, max_steps=1)
    trainer = pl.Trainer(**options)
    trainer.fit(Mlp(), make_loader(arguments.ranks))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=["pytorch", "lightning", "fabric", "accelerate", "ddp"])
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--synced-metrics", type=int)
    parser.add_argument("--first-step", action="store_true")
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    clock = StepClock(arguments.first_step)
    globals()[f"run_{arguments.side}"](arguments, clock)
    if not arguments.first_step and int(os.environ.get("RANK", os.environ.get("LOCAL_RANK", 0))) == 0:
        print(json.dumps({"value": clock.microseconds()}), flush=True)


if __name__ == "__main__":
    main()
