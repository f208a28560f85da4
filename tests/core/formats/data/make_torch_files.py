"""Writes the files of torch and Lightning next to it, which levin's tests read. Usage: python make_torch_files.py [FOLDER]

Needs torch and lightning. The tests know every value: numbers count up from 0, or are as the comments here say.
"""

import collections
import pathlib
import sys

import lightning as L
import torch

FOLDER = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent

OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adafactor", "Adamax", "ASGD", "Muon", "NAdam", "RAdam", "Rprop"]

DTYPES = [
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128", "complex32",
    "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
]


def counted(dtype):
    """[[0, 1, 2], [3, 4, 5]]; powers of two for a dtype that has nothing else, truths for bool."""
    numbers = torch.arange(6).reshape(2, 3)
    return (2.0**numbers if dtype == torch.float8_e8m0fnu else numbers).to(dtype)


def state_dict():
    weights = collections.OrderedDict((name, counted(getattr(torch, name))) for name in DTYPES)
    matrix = torch.arange(12.0).reshape(3, 4)
    weights["scalar"] = torch.tensor(2.5)
    weights["empty"] = torch.empty(0, 3)
    weights["transposed"] = matrix.t()
    weights["row"] = matrix[1]  # shares memory with `transposed`
    weights["expanded"] = torch.tensor([7.0]).expand(2, 2)
    weights["parameter"] = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    return weights


class NotLevins:
    """What levin does not know, in callbacks and hyper-parameters."""

    def __init__(self):
        self.numbers = {1, 2}


class Watcher(L.Callback):
    """Saves when two batches of the second epoch are done."""

    def state_dict(self):
        return {"object": NotLevins()}

    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 6:
            trainer.save_checkpoint(FOLDER / "lightning_within_epoch.ckpt")


class SavesEpochs(L.Callback):
    """Saves after each epoch."""

    def __init__(self, file):
        self.file = file

    def on_train_epoch_end(self, trainer, _):
        trainer.save_checkpoint(self.file)


class Regression(L.LightningModule):
    """The module of the tests: y = weight x + bias for two numbers."""

    def __init__(self, hidden=3, lr=0.05, optimizer="AdamW", anything=None):
        super().__init__()
        self.save_hyperparameters()
        self.first = torch.nn.Linear(2, hidden)
        self.second = torch.nn.Linear(hidden, 1)
        with torch.no_grad():  # no random numbers, so that levin can begin alike
            for parameter in self.parameters():
                parameter.copy_(torch.linspace(-0.5, 0.5, parameter.numel()).reshape(parameter.shape))

    def training_step(self, batch, _):
        return (self.second(torch.tanh(self.first(batch[0]))) - batch[1]).pow(2).mean()

    def configure_optimizers(self):
        options = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.5, "centered": True}}
        kind = getattr(torch.optim, self.hparams.optimizer)
        # Muon takes matrices only.
        parameters = [p for p in self.parameters() if p.ndim == 2 or self.hparams.optimizer != "Muon"]
        optimizer = kind(parameters, lr=self.hparams.lr, **options.get(self.hparams.optimizer, {}))
        return [optimizer], [torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[2, 2, 3], gamma=0.5)]


def loader():
    """Eight samples in order, two a batch; x = (i / 8, 1 - i / 4), y = i / 4 - 1."""
    index = torch.arange(8.0)
    x = torch.stack([index / 8, 1 - index / 4], dim=1)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, (index / 4 - 1).unsqueeze(1)), batch_size=2)


def trainer(**options):
    quiet = dict(logger=False, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False)
    return L.Trainer(**quiet, **options)


def write_lightning():
    for optimizer in OPTIMIZERS:
        run = trainer(max_epochs=2)
        module = Regression(optimizer=optimizer)
        run.fit(module, loader())
        run.save_checkpoint(FOLDER / f"lightning_{optimizer}.ckpt")
        module = Regression(optimizer=optimizer)
        trainer(max_epochs=4).fit(module, loader(), ckpt_path=FOLDER / f"lightning_{optimizer}.ckpt", weights_only=False)
        torch.save(module.state_dict(), FOLDER / f"lightning_{optimizer}_later.pt")
    # Its weights are averages, and the trained ones stand next to them.
    file = FOLDER / "lightning_averaged.ckpt"
    later = FOLDER / "lightning_averaged_later.pt"
    for epochs, begin, end in [(2, None, file), (4, file, later)]:
        averaging = L.pytorch.callbacks.EMAWeightAveraging(decay=0.5)
        run = trainer(max_epochs=epochs, callbacks=[averaging, SavesEpochs(end)])
        run.fit(Regression(optimizer="Adam"), loader(), ckpt_path=begin, weights_only=False)
    torch.save(torch.load(later, weights_only=False)["current_model_state"], later)
    trainer(max_epochs=2, callbacks=[Watcher()]).fit(Regression(anything=NotLevins()), loader())


def of_regressor(scale):
    """The weights of levin's MLPRegressor with one input and hidden: [4]."""
    return {"net.0.weight": torch.full((4, 1), scale), "net.0.bias": torch.arange(4.0), "net.2.weight": torch.full((1, 4), 0.5),
            "net.2.bias": torch.zeros(1), "label_scale": torch.tensor([0.0, 1.0])}


def main():
    weights = state_dict()
    torch.save(weights, FOLDER / "state_dict.pt")
    torch.save({"model_state_dict": {"weight": torch.ones(2)}, "epoch": 3}, FOLDER / "training_loop.pt")
    torch.save({"generator": of_regressor(1.0), "discriminator": of_regressor(2.0)}, FOLDER / "two_dicts.pt")
    torch.save({"weight": torch.ones(2)}, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(torch.nn.Linear(1, 1), FOLDER / "whole_module.pt")
    torch.save({"dense": torch.ones(2), "sparse": torch.eye(2).to_sparse()}, FOLDER / "sparse.pt")
    quantized = torch.quantize_per_tensor(torch.ones(2), scale=0.5, zero_point=0, dtype=torch.qint8)
    torch.save({"dense": torch.ones(2), "quantized": quantized}, FOLDER / "quantized.pt")
    number = torch.complex(torch.arange(3.0), torch.arange(3.0) + 3)  # saved once; the others are views of it
    views = {"plain": number, "conj": number.conj(), "neg": torch._neg_view(torch.arange(3.0)), "both": torch._neg_view(number.conj())}
    torch.save(views, FOLDER / "views.pt")
    write_lightning()


if __name__ == "__main__":
    main()
