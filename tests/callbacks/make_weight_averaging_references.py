#!/usr/bin/env python3
"""Writes weight_averaging_references.json: what Lightning's callbacks that average weights come to.

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
from lightning.pytorch.callbacks import EMAWeightAveraging, ModelCheckpoint, WeightAveraging

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


references = [run(*case) for case in CASES]
text = "[\n" + ",\n".join(json.dumps(reference) for reference in references) + "\n]\n"
(pathlib.Path(__file__).parent / "weight_averaging_references.json").write_text(text)
