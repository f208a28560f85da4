"""Tests of packed sequences in steps that levin_train.export() takes: recurrent layers over texts of several lengths.

    python tests/exported/export_packed_test.py

Nothing is compiled here: what is recorded is compared with the module, whose layers run on what torch packs.
"""

import unittest

from recorded_graphs import Base, Refused, line_with, verified

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

_GENERATOR = torch.Generator().manual_seed(1)
LENGTHS = torch.tensor([2, 4, 3, 4, 1, 2])
TEXTS = (torch.randn(6, 4, 5, generator=_GENERATOR), LENGTHS, torch.randn(6, 4, 3, generator=_GENERATOR))


def weighted(states):
    """A loss in which each number of each state counts, and differently."""
    return sum((index + 1) * (state * torch.arange(state.shape[0])[:, None, None].add(1)).pow(2).mean() for index, state in enumerate(states))


class Tagger(Base):
    """A layer over packed texts, whose outputs and last states are in the loss."""

    def __init__(self, layer, is_sorted=False, first=False, **options):
        super().__init__()
        self.layer, self.head = layer, nn.Linear((layer.proj_size or layer.hidden_size) * (2 if layer.bidirectional else 1), 3)
        self.is_sorted, self.options = is_sorted, options
        self.first = nn.Parameter(torch.full((layer.num_layers * (2 if layer.bidirectional else 1), 1, layer.hidden_size), 0.3)) if first else None

    def training_step(self, batch, batch_idx):
        texts, lengths, targets = batch
        if not self.layer.batch_first:
            texts, targets = texts.transpose(0, 1), targets.transpose(0, 1)
        packed = pack_padded_sequence(texts, lengths, batch_first=self.layer.batch_first, enforce_sorted=self.is_sorted)
        begin = None if self.first is None else self.first.expand(-1, len(lengths), -1).contiguous()
        outputs, states = self.layer(packed, (begin, 0.5 * begin) if begin is not None and isinstance(self.layer, nn.LSTM) else begin)
        outputs, given = pad_packed_sequence(outputs, batch_first=self.layer.batch_first, **self.options)
        return F.mse_loss(self.head(outputs), targets) + weighted(states if isinstance(states, tuple) else [states]) + (given * lengths).float().mean()


class Packed(Refused):
    def test_layers_of_all_kinds(self):
        for layer in (nn.LSTM(5, 4), nn.LSTM(5, 4, batch_first=True, bias=False), nn.LSTM(5, 4, 2, batch_first=True, bidirectional=True, dropout=0.3),
                      nn.LSTM(5, 4, batch_first=True, proj_size=2), nn.GRU(5, 4, 2, batch_first=True, bidirectional=True, dropout=0.3), nn.GRU(5, 4),
                      nn.RNN(5, 4, batch_first=True, bidirectional=True), nn.RNN(5, 4, nonlinearity="relu")):
            with self.subTest(layer):
                verified(Tagger(layer), TEXTS)

    def test_first_states(self):
        """The second direction begins with its own at the end of each text."""
        for kind in (nn.LSTM, nn.GRU):
            verified(Tagger(kind(5, 4, batch_first=True, bidirectional=True), first=True), TEXTS)

    def test_texts_that_are_sorted_already(self):
        order = LENGTHS.argsort(descending=True)
        graphs, _ = verified(Tagger(nn.LSTM(5, 4, batch_first=True), is_sorted=True), tuple(tensor[order] for tensor in TEXTS))
        self.assertEqual(len([entry for entry in graphs["training_step"].outputs if entry["kind"] == "condition"]), 2)
        self.refused(Tagger(nn.LSTM(5, 4, batch_first=True), is_sorted=True), "must be sorted in decreasing order", TEXTS)

    def test_what_is_padded_to_more_than_the_longest(self):
        shorter = (TEXTS[0], LENGTHS - (LENGTHS == 4).long(), TEXTS[2])
        verified(Tagger(nn.GRU(5, 4, batch_first=True), total_length=4, padding_value=-2.0), shorter)
        verified(Tagger(nn.GRU(5, 4, batch_first=True), padding_value=-2.0), TEXTS)

        def step(self, batch, batch_idx):
            packed = pack_padded_sequence(batch[0], batch[1], batch_first=True, enforce_sorted=False)
            return pad_packed_sequence(self.layer(packed)[0], batch_first=True)[0].mean()  # pads

        module = type("Short", (Tagger,), {"training_step": step})(nn.GRU(5, 4, batch_first=True))
        self.refused(module, "Give it total_length=x.shape[1]", shorter, line_with(__file__, "pads"))

    def test_what_is_made_of_packed_rows(self):
        """Dropout of them, and a loss of packed targets, as a course on captions has it."""
        class Captions(Tagger):
            def training_step(self, batch, batch_idx):
                texts, lengths, targets = batch
                packed = pack_padded_sequence(texts, lengths, batch_first=True, enforce_sorted=False)
                packed = PackedSequence(F.dropout(packed.data, 0.3, self.training), packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices)
                outputs, _ = self.layer(packed)
                wanted = pack_padded_sequence(targets, lengths, batch_first=True, enforce_sorted=False).data
                return F.mse_loss(self.head(outputs.data), wanted)

        verified(Captions(nn.LSTM(5, 4, batch_first=True)), TEXTS)

    def test_lengths_as_lists_and_arrays(self):
        class Listed(Tagger):
            def training_step(self, batch, batch_idx):
                texts, lengths, targets = batch
                packed = [pack_padded_sequence(texts, given, batch_first=True, enforce_sorted=False) for given in (lengths.cpu().numpy(), lengths.tolist())]
                return F.mse_loss(self.head(self.layer(packed[0])[1][0]), targets[:, 0]) + self.layer(packed[1])[1].mean()

        verified(Listed(nn.GRU(5, 4, batch_first=True)), TEXTS)

    def test_lengths_that_vary(self):
        """Batches that are padded to their longest text."""
        def batch(longest):
            lengths = LENGTHS.clamp(max=longest)
            return TEXTS[0][:, :longest], lengths, TEXTS[2][:, :longest]

        graphs, _ = verified(Tagger(nn.LSTM(5, 4, batch_first=True, bidirectional=True)), batch(4), [batch(3), batch(2)])
        self.assertEqual(next(entry["shape"] for entry in graphs["training_step"].inputs if entry["kind"] == "batch"), ["batch", "0_1", 5])

    def test_values_beyond_the_ends(self):
        """They count for nothing, whatever they are."""
        texts = TEXTS[0].masked_fill((torch.arange(4) >= LENGTHS[:, None])[:, :, None], torch.nan)
        verified(Tagger(nn.LSTM(5, 4, batch_first=True, bidirectional=True)), (texts, *TEXTS[1:]))


if __name__ == "__main__":
    unittest.main()
