#!/usr/bin/env python3
"""Writes finetuning_references.json: rates, trained parameters and losses of Lightning's callbacks that train a part later.

    python3 -m pip install lightning==2.6.6 && python3 make_finetuning_references.py
"""
import json
import logging
import math
import pathlib
import tempfile
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import BackboneFinetuning, BaseFinetuning, Callback

warnings.simplefilter("ignore")
for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)

# The rate of the head is multiplied by gamma after each epoch.
CASES = [
    ("BackboneFinetuning", {"unfreeze_backbone_at_epoch": 2}, 1.0),
    ("BackboneFinetuning", {"unfreeze_backbone_at_epoch": 1, "lambda_func": 5, "backbone_initial_ratio_lr": 0.25}, 0.8),
    ("BackboneFinetuning", {"unfreeze_backbone_at_epoch": 1, "lambda_func": 5.0, "should_align": False}, 0.8),
    ("BackboneFinetuning", {"unfreeze_backbone_at_epoch": 0, "lambda_func": "1 + epoch / 4", "backbone_initial_lr": 0.002}, 1.0),
    ("BackboneFinetuning", {"unfreeze_backbone_at_epoch": 9}, 0.8),
    ("UnfreezeLater", {}, 0.8),
]


class UnfreezeLater(BaseFinetuning):
    def freeze_before_training(self, module):
        self.freeze(module.backbone)

    def finetune_function(self, module, epoch, optimizer):
        if epoch == 1:
            self.unfreeze_and_add_param_group(module.backbone, optimizer, initial_denom_lr=4)
        if epoch == 3:
            self.freeze(module.backbone[0])


class Model(pl.LightningModule):
    def __init__(self, gamma):
        super().__init__()
        nn = torch.nn
        self.backbone = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Tanh()).double()
        self.head = nn.Linear(3, 1).double()
        self.gamma = gamma
        self.losses = []
        with torch.no_grad():
            for layer in (self.backbone[0], self.head):
                for parameter in layer.parameters():
                    parameter.copy_(torch.sin(1.0 + torch.arange(parameter.numel(), dtype=torch.float64)).reshape(parameter.shape))

    def training_step(self, batch):
        loss = torch.nn.functional.mse_loss(self.head(self.backbone(batch[0])), batch[1])
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        trained = [parameter for parameter in self.parameters() if parameter.requires_grad]
        optimizer = torch.optim.SGD(trained, 0.05, momentum=0.5)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, self.gamma)]


class Watch(Callback):
    def __init__(self):
        self.epochs = []

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if batch_idx > 0:
            return
        groups = trainer.optimizers[0].param_groups
        self.epochs.append({"lrs": [group["lr"] for group in groups], "sizes": [len(group["params"]) for group in groups],
                            "trained": [name for name, parameter in module.named_parameters() if parameter.requires_grad]})


def samples(count):
    rows = [[math.sin(i), math.cos(2 * i), math.sin(i) - 2 * math.cos(2 * i) + 0.5] for i in range(count)]
    table = torch.tensor(rows, dtype=torch.float64)
    return torch.utils.data.TensorDataset(table[:, :2], table[:, 2:])


def run(name, arguments, gamma):
    given = dict(arguments)
    if "lambda_func" in given:
        text = str(given["lambda_func"])
        given["lambda_func"] = lambda epoch: float(eval(text, {"epoch": epoch}))
    finetuning = {"BackboneFinetuning": BackboneFinetuning, "UnfreezeLater": UnfreezeLater}[name](**given)
    model, watch = Model(gamma), Watch()
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(default_root_dir=folder, max_epochs=5, accelerator="cpu", logger=False, callbacks=[finetuning, watch],
                             enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
        trainer.fit(model, torch.utils.data.DataLoader(samples(12), batch_size=4))
    return {"class": name, "arguments": arguments, "gamma": gamma, "epochs": watch.epochs, "losses": model.losses}


references = [run(*case) for case in CASES]
text = "[\n" + ",\n".join(json.dumps(reference) for reference in references) + "\n]\n"
(pathlib.Path(__file__).parent / "finetuning_references.json").write_text(text)
