#!/usr/bin/env python3
"""Writes pruning_references.json: what Lightning's ModelPruning sets to zero in each epoch, losses, and the weights at the end.

    python3 -m pip install lightning==2.6.6 && python3 make_pruning_references.py
"""
import json
import logging
import math
import pathlib
import tempfile
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, ModelPruning

warnings.simplefilter("ignore")
for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)

CHANNELS = {"pruning_fn": "ln_structured", "use_global_unstructured": False, "use_lottery_ticket_hypothesis": False}
CASES = [
    {"pruning_fn": "l1_unstructured"},
    {"pruning_fn": "l1_unstructured", "amount": 0.3, "use_lottery_ticket_hypothesis": False},
    {"pruning_fn": "l1_unstructured", "amount": 7, "use_lottery_ticket_hypothesis": False, "prune_on_train_epoch_end": False},
    {"pruning_fn": "l1_unstructured", "amount": 2, "use_global_unstructured": False, "parameter_names": ["weight"]},
    {"pruning_fn": "l1_unstructured", "amount": 0.25, "use_global_unstructured": False, "apply_pruning": False},
    {**CHANNELS, "parameter_names": ["weight"], "amount": 1, "pruning_dim": 0, "pruning_norm": 1},
    {**CHANNELS, "parameters_to_prune": ["first.weight"], "amount": 0.4, "pruning_dim": -1, "pruning_norm": 2},
]


class Pruning(ModelPruning):
    @staticmethod
    def _copy_param(new, old, name):
        # Lightning's gives the weights the memory of those to go back to, where both are on the CPU, and so trains both.
        target = getattr(new, name + "_orig", None)
        (getattr(new, name) if target is None else target).data = getattr(old, name).data.clone()


class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 5).double()
        self.last = torch.nn.Linear(5, 4).double()
        self.losses = []
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.sin(1.0 + torch.arange(parameter.numel(), dtype=torch.float64)).reshape(parameter.shape))

    def loss(self, batch):
        return torch.nn.functional.mse_loss(self.last(torch.tanh(self.first(batch[0]))), batch[1])

    def training_step(self, batch):
        loss = self.loss(batch)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch):
        self.loss(batch)  # computes the weights that the mask leaves: Lightning prunes by those of the last forward pass

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1, momentum=0.5, weight_decay=0.01)


class Watch(Callback):
    def __init__(self):
        self.epochs = []

    def on_train_epoch_end(self, trainer, module):
        pruned = {name: tensor for name, tensor in module.named_buffers() if name.endswith("_mask")}
        self.epochs.append({name[:-len("_mask")]: (mask == 0).flatten().int().tolist() for name, mask in pruned.items()})


def samples(count):
    rows = [[math.sin(i), math.cos(2 * i), math.sin(3 * i), math.cos(i), math.sin(i) - 0.5, math.cos(3 * i), math.sin(2 * i), 1] for i in range(count)]
    table = torch.tensor(rows, dtype=torch.float64)
    return torch.utils.data.TensorDataset(table[:, :4], table[:, 4:])


def run(arguments):
    model, watch = Model(), Watch()
    given = {**arguments}
    if "parameters_to_prune" in given:
        given["parameters_to_prune"] = [(model.get_submodule(name.rpartition(".")[0]), name.rpartition(".")[2])
                                        for name in given["parameters_to_prune"]]
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(default_root_dir=folder, max_epochs=3, accelerator="cpu", logger=False, gradient_clip_val=0.3,
                             callbacks=[Pruning(**given), watch], enable_checkpointing=False, enable_progress_bar=False,
                             enable_model_summary=False, num_sanity_val_steps=0)
        load = torch.utils.data.DataLoader
        trainer.fit(model, load(samples(12), batch_size=3), load(samples(4), batch_size=4))
    weights = {name: parameter.flatten().tolist() for name, parameter in model.named_parameters()}
    return {"arguments": arguments, "epochs": watch.epochs, "losses": model.losses, "weights": weights}


references = [run(case) for case in CASES]
text = "[\n" + ",\n".join(json.dumps(reference) for reference in references) + "\n]\n"
(pathlib.Path(__file__).parent / "pruning_references.json").write_text(text)
