#!/usr/bin/env python3
"""Writes finder_references.json: the rates, losses and suggestions of Lightning's LearningRateFinder, but for a mistake.

    python3 -m pip install lightning==2.6.6 && python3 make_finder_references.py
"""
import inspect
import json
import logging
import math
import pathlib
import tempfile
import textwrap
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import LearningRateFinder
from lightning.pytorch.tuner import lr_finder

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

# Lightning counts one step too many where it makes up for the zero that its average begins with: the first loss is half of
# what it was. The references are without that mistake.
source = textwrap.dedent(inspect.getsource(lr_finder._LRCallback.on_train_batch_end))
assert "(current_step + 1)" in source
exec(source.replace("(current_step + 1)", "current_step"), lr_finder.__dict__)
lr_finder._LRCallback.on_train_batch_end = lr_finder.on_train_batch_end

CASES = [
    ("SGD", {}),
    ("SGD", {"num_training_steps": 60, "min_lr": 1e-4, "max_lr": 50.0}),
    ("SGD", {"num_training_steps": 30, "min_lr": 1e-3, "max_lr": 0.5, "mode": "linear"}),
    ("Adam", {"num_training_steps": 50, "min_lr": 1e-4, "max_lr": 10.0, "early_stop_threshold": None}),
]


def samples(count):
    rows = [[math.sin(i), math.cos(2 * i), math.sin(i) - 2 * math.cos(2 * i) + 0.5] for i in range(count)]
    table = torch.tensor(rows, dtype=torch.float64)
    return torch.utils.data.TensorDataset(table[:, :2], table[:, 2:])


class Model(pl.LightningModule):
    def __init__(self, optimizer):
        super().__init__()
        self.lr = 0.1
        self.optimizer = optimizer
        self.layer = torch.nn.Linear(2, 1, dtype=torch.float64)
        with torch.no_grad():
            self.layer.weight.copy_(torch.tensor([[0.5, -0.25]]))
            self.layer.bias.fill_(0.1)

    def training_step(self, batch):
        return torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])

    def configure_optimizers(self):
        return getattr(torch.optim, self.optimizer)(self.parameters(), self.lr)


def run(optimizer, arguments):
    finder = LearningRateFinder(**arguments)
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(default_root_dir=folder, max_steps=1, accelerator="cpu", logger=False, callbacks=[finder],
                             enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
        trainer.fit(Model(optimizer), torch.utils.data.DataLoader(samples(60), batch_size=4))
    found = finder.optimal_lr.results
    # The same over the axis of Lightning's own plot.
    losses, rates = (torch.tensor(found[key][10:-1], dtype=torch.float64) for key in ("loss", "lr"))
    places = rates if arguments.get("mode") == "linear" else rates.log()
    steepest = torch.gradient(losses, spacing=[places])[0].argmin().item()
    return {"optimizer": optimizer, "arguments": arguments, "lr": found["lr"], "loss": found["loss"],
            "suggestion": finder.optimal_lr.suggestion(), "over_plot": rates[steepest].item()}


references = [run(*case) for case in CASES]
text = "[\n" + ",\n".join(json.dumps(reference) for reference in references) + "\n]\n"
(pathlib.Path(__file__).parent / "finder_references.json").write_text(text)
