"""The networks of exported_step.cpp in PyTorch: under levin_train.export(), by hand, compiled, and in Lightning.

Usage: exported_networks.py export NETWORK FILE | eager NETWORK | compile NETWORK | lightning NETWORK

The last three print one line of JSON: milliseconds a step, and the peak memory in MB.
"""
import json
import pathlib
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional

BATCH_SIZE, METRICS = 32, 10


class Block(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        stride = 1 if inner == outer else 2
        self.first = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(outer)
        self.second = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(outer)
        self.shortcut = nn.Identity() if inner == outer else nn.Conv2d(inner, outer, 1, stride, bias=False)

    def forward(self, x):
        y = self.second_norm(self.second(torch.relu(self.first_norm(self.first(x)))))
        return torch.relu(y + self.shortcut(x))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(96, 192)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(192, 6, 768, dropout=0.0, batch_first=True), 4)
        self.head = nn.Linear(192, 96)

    def forward(self, characters):
        mask = nn.Transformer.generate_square_subsequent_mask(characters.shape[1])
        return self.head(self.encoder(self.embedding(characters), mask)).flatten(0, 1)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(96, 192)
        self.lstm = nn.LSTM(192, 192, num_layers=2, batch_first=True)
        self.head = nn.Linear(192, 96)

    def forward(self, characters):
        return self.head(self.lstm(self.embedding(characters))[0]).flatten(0, 1)


def make_network(network):
    if network == "mlp":
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    if network == "resnet":
        blocks = [Block(*sizes) for sizes in ((16, 16), (16, 16), (16, 32), (32, 32), (32, 64), (64, 64))]
        return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    return Transformer() if network == "transformer" else Lstm()


def make_data(network, samples):
    torch.manual_seed(0)
    if network == "mlp":
        return torch.rand(samples, 64), torch.randint(10, (samples,))
    if network == "resnet":
        return torch.rand(samples, 3, 32, 32), torch.randint(10, (samples,))
    return torch.randint(96, (samples, 64)), torch.randint(96, (samples, 64))


def measure_of(network):
    """Batches of an epoch, epochs that are not measured, and all."""
    return (46, 3, 13) if network == "mlp" else (6, 1, 3)


def report(network, started):
    batches, warm_up, epochs = measure_of(network)
    print(json.dumps({"value": (time.perf_counter() - started) / ((epochs - warm_up) * batches) * 1e3,
                      "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024e-6}), flush=True)


def by_hand(network, compiles):
    batches, warm_up, epochs = measure_of(network)
    x, y = make_data(network, batches * BATCH_SIZE)
    net = make_network(network)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3, fused=True)

    def loss_of(rows, labels):
        return functional.cross_entropy(net(rows), labels.flatten())

    loss_of = torch.compile(loss_of) if compiles else loss_of
    for epoch in range(epochs):
        if epoch == warm_up:
            started = time.perf_counter()
        for indices in torch.randperm(len(x)).split(BATCH_SIZE):
            optimizer.zero_grad()
            loss_of(x[indices], y[indices]).backward()
            optimizer.step()
    report(network, started)


def make_module(network):
    import lightning.pytorch as pl

    class Learner(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = make_network(network)

        def training_step(self, batch, batch_idx):
            loss = functional.cross_entropy(self.net(batch[0]), batch[1].flatten())
            self.log("train_loss", loss, on_step=True, on_epoch=True, prog_bar=True)
            for index in range(1, METRICS):
                self.log(f"metric_{index}", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), 1e-3)

    return Learner()


def with_lightning(network):
    import lightning.pytorch as pl
    from torch.utils.data import DataLoader, TensorDataset

    batches, warm_up, epochs = measure_of(network)
    started = 0.0

    class Clock(pl.Callback):
        def on_train_epoch_start(self, trainer, module):
            nonlocal started
            if trainer.current_epoch == warm_up:
                started = time.perf_counter()

        def on_train_end(self, trainer, module):
            report(network, started)

    loader = DataLoader(TensorDataset(*make_data(network, batches * BATCH_SIZE)), batch_size=BATCH_SIZE, shuffle=True)
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", callbacks=[Clock()], logger=pl.loggers.CSVLogger("."),
                         enable_model_summary=False, log_every_n_steps=50, default_root_dir=".")
    trainer.fit(make_module(network), loader)


def export(network, file):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
    import levin_train

    levin_train.export(make_module(network), make_data(network, BATCH_SIZE), file, config=False)


def main():
    side, network = sys.argv[1:3]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if side == "export":
        export(network, sys.argv[3])
    elif side == "lightning":
        with_lightning(network)
    else:
        by_hand(network, side == "compile")


if __name__ == "__main__":
    main()
