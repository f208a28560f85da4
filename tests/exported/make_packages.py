"""Writes the packages and references of tests/exported/packages again: `make packages`.

The packages are compiled for any x86-64 processor with AVX2. The references are what torch and Lightning compute of the same batches.
"""

import json
import pathlib
import sys
import zipfile

import lightning as L
import torch
import torch.nn.functional as F
import torchmetrics
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import levin_train  # noqa: E402
from levin_train import safetensors  # noqa: E402

FOLDER = pathlib.Path(__file__).parent / "packages"


class Steps(L.LightningModule):
    """Tied and frozen weights, BatchNorm, dropout, another buffer, a number of the run, an assert and a metric object."""

    def __init__(self, width=6):
        super().__init__()
        self.save_hyperparameters()
        self.first = nn.Linear(4, width)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.25)
        self.second = nn.Linear(width, width)
        self.third = nn.Linear(width, width)
        self.third.weight = self.second.weight
        self.last = nn.Linear(width, 3)
        self.last.bias.requires_grad_(False)
        self.register_buffer("seen", torch.zeros((), dtype=torch.int64))
        self.accuracy = torchmetrics.classification.MulticlassAccuracy(num_classes=3, average="macro")

    def forward(self, x):
        x = self.dropout(torch.tanh(self.norm(self.first(x))))
        return self.last(torch.tanh(self.third(torch.tanh(self.second(x)))))

    def training_step(self, batch, batch_idx):
        assert (batch["label"] >= 0).all()
        scores = self(batch["x"])
        loss = F.cross_entropy(scores, batch["label"]) * (1 + min(1.0, self.global_step / 10))
        self.seen += len(batch["label"])
        self.log("train_loss", loss, on_epoch=True, prog_bar=True)
        self.log("seen", self.seen.float(), on_step=True, on_epoch=False)
        return {"loss": loss, "scores": scores}

    def validation_step(self, batch, batch_idx):
        scores = self(batch["x"])
        self.log_dict({"val_loss": F.cross_entropy(scores, batch["label"])})
        self.accuracy(scores, batch["label"])
        self.log("val_accuracy", self.accuracy)

    def predict_step(self, batch, batch_idx):
        return {"probabilities": self(batch["x"]).softmax(1), "label": self(batch["x"]).argmax(1)}

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)]


def batches_of(count, sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    return [{"x": torch.randn(size, 4, generator=generator), "label": torch.randint(0, 3, (size,), generator=generator)}
            for _, size in zip(range(count), sizes)]


def one_step(module, batch, seed):
    """Loss, gradients and buffers after a training step outside of a run."""
    module = module.train()
    module.log = module.log_dict = lambda *_, **__: None
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    module.zero_grad()
    torch.manual_seed(seed)
    loss = module.training_step(batch, 0)["loss"]
    loss.backward()
    found = {"loss": loss.detach()}
    found |= {f"gradient.{name}": parameter.grad for name, parameter in module.named_parameters() if parameter.grad is not None}
    found |= {f"buffer.{name}": buffer.clone() for name, buffer in module.named_buffers()}
    module.load_state_dict(state)
    del module.log, module.log_dict
    return found


def references(module):
    tensors = {}
    for index, batch in enumerate(batches_of(3, (13, 5, 2), seed=3)):
        tensors |= {f"step.{index}.{name}": tensor for name, tensor in batch.items()}
        tensors |= {f"step.{index}.{name}": tensor for name, tensor in one_step(module, batch, seed=index).items()}
    module.dropout.p = 0.0
    train, val = batches_of(6, [8] * 6, seed=4), batches_of(3, (8, 8, 3), seed=5)
    for stage, batches in (("train", train), ("val", val)):
        for index, batch in enumerate(batches):
            tensors |= {f"{stage}.{index}.{name}": tensor for name, tensor in batch.items()}
    trainer = L.Trainer(max_epochs=3, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="cpu",
                        enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(module, torch.utils.data.DataLoader(train, batch_size=None), torch.utils.data.DataLoader(val, batch_size=None))
    tensors |= {f"trained.{name}": tensor.clone() for name, tensor in module.state_dict().items()}
    tensors |= {f"metric.{name}": value.float() for name, value in trainer.callback_metrics.items()}
    return tensors


def variant(source, target, change):
    """A package with another levin.json, whose checksums hold. Its code is left out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("levin.json"):
                description = json.loads(data)
                change(description)
                data = json.dumps(description).encode()
            new.writestr(zipfile.ZipInfo(name), b"" if name.endswith(".so") else data)


def main():
    FOLDER.mkdir(exist_ok=True)
    torch.manual_seed(1)
    module = Steps()
    start = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    batch = batches_of(1, [16], seed=2)[0]
    levin_train.export(module, batch, FOLDER / "steps.pt2", processor="x86-64-v3")
    module.dropout.p = 0.0
    levin_train.export(module, batch, FOLDER / "plain.pt2", without=["predict_step"], processor="x86-64-v3")
    module.dropout.p = 0.25
    module.load_state_dict(start)
    (FOLDER / "references.safetensors").write_bytes(safetensors.to_bytes(references(module)))
    levin_train.export_function(lambda image, scale: {"code": torch.tanh(image) * scale},
                          {"image": torch.randn(5, 3), "scale": torch.tensor(2.0)}, FOLDER / "function.pt2", processor="x86-64-v3")
    for name, key, value in (("other_torch", "torch", "2.12.0"), ("other_system", "system", "plan9"), ("other_machine", "machine", "aarch64"),
                             ("other_processor", "processor_features", ["avx2", "avx9000"]), ("other_format", "format", 99)):
        variant(FOLDER / "function.pt2", FOLDER / f"{name}.pt2", lambda description: description.update({key: value}))


if __name__ == "__main__":
    main()
