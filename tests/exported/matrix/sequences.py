"""Modules of the matrix on sequences."""

import torch
import torch.nn.functional as F
from torch import nn

from cases import Module, case


def series(steps, features, count=None):
    return lambda rows: (torch.randn(rows, steps, features), torch.randint(0, count, (rows,)) if count else torch.randn(rows, 1))


def tokens(steps, count):
    return lambda rows: torch.randint(0, count, (rows, steps + 1))


@case(series(6, 4))
class Lstm(Module):
    """Two layers in both directions."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, num_layers=2, batch_first=True, bidirectional=True), nn.Linear(16, 1)

    def loss(self, batch):
        return F.mse_loss(self.head(self.rnn(batch[0])[0][:, -1]), batch[1])

    def predict_step(self, batch, batch_idx):
        outputs, (last, cells) = self.rnn(batch[0])
        return {"each": self.head(outputs), "last": last.transpose(0, 1)}


@case(series(6, 4), ranks=())
class LstmDropout(Module):
    """Dropout between layers."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, num_layers=2, batch_first=True, dropout=0.3), nn.Linear(8, 1)

    def loss(self, batch):
        return F.mse_loss(self.head(self.rnn(batch[0])[0][:, -1]), batch[1])


@case(series(6, 4, 3))
class Gru(Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(4, 12, batch_first=True), nn.Linear(12, 3)

    def loss(self, batch):
        _, last = self.rnn(batch[0])
        return F.cross_entropy(self.head(last[-1]), batch[1])


@case(series(5, 4))
class CellLoop(Module):
    """A cell in a loop of Python over time, with its own first state."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.RNNCell(4, 8), nn.Linear(8, 1)
        self.first = nn.Parameter(torch.zeros(1, 8))

    def loss(self, batch):
        x, target = batch
        h = self.first.expand(x.shape[0], -1)
        for step in range(x.shape[1]):
            h = self.cell(x[:, step], h)
        return F.mse_loss(self.head(h), target)


@case(lambda rows: {"tokens": torch.randint(0, 30, (rows, 8)), "lengths": torch.randint(1, 9, (rows,)), "label": torch.randint(0, 3, (rows,))})
class TransformerEncoder(Module):
    """Attention under a mask that lengths give."""

    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(30, 16, padding_idx=0), nn.Linear(16, 3)
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def loss(self, batch):
        padding = torch.arange(batch["tokens"].shape[1]) >= batch["lengths"].unsqueeze(1)
        hidden = self.encoder(self.words(batch["tokens"]), src_key_padding_mask=padding)
        kept = (~padding).unsqueeze(-1).float()
        return F.cross_entropy(self.head((hidden * kept).sum(1) / kept.sum(1)), batch["label"])


@case(tokens(8, 20), ranks=(2, 4))
class TransformerDecoder(Module):
    """A language model whose head has the weights of its embedding."""

    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(20, 16), nn.Embedding(8, 16)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.feed = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 20, bias=False)
        self.head.weight = self.words.weight

    def loss(self, batch):
        x, y = batch[:, :-1], batch[:, 1:]
        rows, steps = x.shape
        h = self.words(x) + self.positions(torch.arange(steps))
        q, k, v = (part.view(rows, steps, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(h)).chunk(3, dim=-1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + self.out(attended.transpose(1, 2).reshape(rows, steps, 16))
        return F.cross_entropy(self.head(h + self.feed(h)).flatten(0, 1), y.flatten())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [{"scheduler": torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=200), "interval": "step"}]


@case(lambda rows: (torch.randn(rows, 4, 6), torch.randn(rows, 5, 6), torch.randn(rows, 4, 6)))
class CrossAttention(Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm = nn.MultiheadAttention(6, 2, batch_first=True), nn.LayerNorm(6)

    def loss(self, batch):
        query, memory, target = batch
        return F.huber_loss(self.norm(query + self.attention(query, memory, memory, need_weights=False)[0]), target)


@case(series(12, 3))
class CausalConvolutions(Module):
    """Dilated convolutions in one dimension, padded on the left."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(3 if index == 0 else 8, 8, 3, dilation=2 ** index) for index in range(3))
        self.head = nn.Linear(8, 1)

    def loss(self, batch):
        x = batch[0].transpose(1, 2)
        for index, layer in enumerate(self.layers):
            x = F.relu(layer(F.pad(x, (2 * 2 ** index, 0))))
        return F.mse_loss(self.head(x[:, :, -1]), batch[1])


@case(series(6, 4), ranks=())
class PackedLstm(Module):
    """Packed sequences."""

    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 1)

    def loss(self, batch):
        lengths = torch.full((batch[0].shape[0],), 4)
        packed = nn.utils.rnn.pack_padded_sequence(batch[0], lengths, batch_first=True)
        return F.mse_loss(self.head(self.rnn(packed)[1][0][-1]), batch[1])
