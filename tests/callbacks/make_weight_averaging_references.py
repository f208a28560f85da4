#!/usr/bin/env python3
"""Writes weight_averaging_references.json and swa_references.json: what Lightning's callbacks that average weights come to.

    python3 -m pip install lightning==2.6.6 && python3 make_weight_averaging_references.py
"""
import json
import logging
import math
import pathlib
import tempfile
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EMAWeightAveraging, ModelCheckpoint, StochasticWeightAveraging, WeightAveraging

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

CASES = [
    ("WeightAveraging", {}),
    ("WeightAveraging", {"use_buffers": False}),
    ("EMAWeightAveraging", {"decay": 0.9}),
    ("EMAWeightAveraging", {"decay": 0.75, "update_every_n_steps": 3, "update_starting_at_step": 2}),
    ("EMAWeightAveraging", {"decay": 0.5, "update_every_n_steps": 0, "update_starting_at_epoch": 0}),
    ("EMAWeightAveraging", {"decay": 0.5, "update_every_n_steps": 2, "update_starting_at_epoch": 1}),
]


def samples(count):
    rows = [[math.sin(i), math.cos(2 * i), math.sin(i) - 2 * math.cos(2 * i) + 0.5] for i in range(count)]
    table = torch.tensor(rows, dtype=torch.float64)
    return torch.utils.data.TensorDataset(table[:, :2], table[:, 2:])


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(2, dtype=torch.float64)
        self.layer = torch.nn.Linear(2, 1, dtype=torch.float64)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[0.5, -0.25]]))
            self.layer.bias.fill_(0.1)
        self.val_losses = []

    def loss(self, batch):
        return torch.nn.functional.mse_loss(self.layer(self.norm(batch[0])), batch[1])

    def training_step(self, batch):
        return self.loss(batch)

    def validation_step(self, batch):
        self.val_losses.append(self.loss(batch).item())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def numbers(state):
    return {name: tensor.reshape(-1).tolist() for name, tensor in state.items() if tensor.is_floating_point()}


def run(name, arguments):
    model = Model()
    averaging = {"WeightAveraging": WeightAveraging, "EMAWeightAveraging": EMAWeightAveraging}[name](**arguments)
    with tempfile.TemporaryDirectory() as folder:
        saving = ModelCheckpoint(folder, save_last=True)
        trainer = pl.Trainer(default_root_dir=folder, max_epochs=3, accelerator="cpu", logger=False, callbacks=[averaging, saving],
                             enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
        load = torch.utils.data.DataLoader
        trainer.fit(model, load(samples(12), batch_size=3), load(samples(5), batch_size=5))
        saved = torch.load(f"{folder}/last.ckpt", weights_only=False)
    return {"class": name, "arguments": arguments, "val_losses": model.val_losses, "module": numbers(model.state_dict()),
            "state_dict": numbers(saved["state_dict"]), "current_model_state": numbers(saved["current_model_state"])}


class Deep(Model):
    """Statistics of its BatchNorm depend on weights."""

    def __init__(self, decays, normalizes):
        super().__init__()
        self.decays = decays
        self.first = torch.nn.Linear(2, 3, dtype=torch.float64)
        self.norm = torch.nn.BatchNorm1d(3, dtype=torch.float64) if normalizes else torch.nn.Identity()
        self.layer = torch.nn.Linear(3, 1, dtype=torch.float64)
        with torch.no_grad():
            for parameter in (self.first.weight, self.first.bias, self.layer.weight, self.layer.bias):
                parameter.copy_(torch.arange(1, parameter.numel() + 1, dtype=torch.float64).sin().reshape(parameter.shape))
        self.lrs, self.ends = [], []

    def forward(self, inputs):
        return self.layer(self.norm(self.first(inputs)))

    def loss(self, batch):
        return torch.nn.functional.mse_loss(self(batch[0]), batch[1])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 0.1)
        schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)] if self.decays else []
        return [optimizer], schedulers


class EndsOfEpochs(Callback):
    def on_train_epoch_start(self, trainer, model):
        if trainer.current_epoch < EPOCHS:
            model.lrs.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_epoch_end(self, trainer, model):
        if trainer.current_epoch < EPOCHS:
            model.ends.append({name: tensor.clone() for name, tensor in model.state_dict().items()})


EPOCHS = 5
SWA_CASES = [
    ({"swa_lrs": 0.05, "swa_epoch_start": 0.6, "annealing_epochs": 2}, True, True),
    ({"swa_lrs": [0.02], "swa_epoch_start": 4, "annealing_strategy": "linear", "annealing_epochs": 3}, True, False),
    ({"swa_lrs": 0.03, "swa_epoch_start": 1, "annealing_epochs": 0, "device": None}, False, True),
]


def mean_of(states):
    mean = {name: torch.stack([state[name] for state in states]).double().mean(0) for name in states[0]}
    return mean | {name: tensor for name, tensor in states[-1].items() if not tensor.is_floating_point()}


def swa_run(arguments, decays, normalizes):
    model = Deep(decays, normalizes)
    loaders = [torch.utils.data.DataLoader(samples(count), batch_size=size) for count, size in ((12, 3), (5, 5))]
    initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        pl.Trainer(default_root_dir=folder, max_epochs=EPOCHS, accelerator="cpu", logger=False, enable_progress_bar=False,
                   callbacks=[StochasticWeightAveraging(**arguments), EndsOfEpochs()], enable_checkpointing=False,
                   enable_model_summary=False, num_sanity_val_steps=0).fit(model, *loaders)
    start = arguments["swa_epoch_start"]
    first = max((int(start * EPOCHS) if isinstance(start, float) else start) - 1, 0)
    # Lightning averages what epochs begin with: never what the last one brings, but the initial weights if the first is one.
    begins = [initial, *model.ends[:-1]]
    for name, parameter in model.named_parameters():
        assert torch.allclose(parameter, mean_of(begins[first:])[name])
    # The paper's algorithm 1 takes the last ones too, and initial ones that were trained.
    taken = model.ends[max(first - 1, 0):]
    validated = [mean_of(model.ends[max(first - 1, 0):epoch + 1]) if epoch >= first - 1 else end for epoch, end in enumerate(model.ends)]
    losses = []
    for epoch, state in enumerate(validated):
        model.load_state_dict(state)
        if epoch == EPOCHS - 1:
            torch.optim.swa_utils.update_bn(loaders[0], model)
        with torch.no_grad():
            losses.append(model.eval().loss(next(iter(loaders[1]))).item())
    return {"arguments": arguments, "decays": decays, "normalizes": normalizes, "lrs": model.lrs, "averaged": len(taken),
            "trained": numbers(model.ends[-1]), "module": numbers(model.state_dict()), "val_losses": losses}


def write(name, references):
    text = "[\n" + ",\n".join(json.dumps(reference) for reference in references) + "\n]\n"
    (pathlib.Path(__file__).parent / name).write_text(text)


write("weight_averaging_references.json", [run(*case) for case in CASES])
write("swa_references.json", [swa_run(*case) for case in SWA_CASES])
