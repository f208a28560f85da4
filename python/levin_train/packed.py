"""Packed sequences in a graph: a layer runs on the padded batch, and what is packed are the rows of it that lengths leave.

The numbers are those of torch: steps beyond a sequence's end change neither its last state nor a gradient, and the second direction
begins at its end. Random numbers of dropout between layers are drawn for the packed rows, as torch draws them.
"""

import sys

import torch
import torch.nn.functional as F
from torch import _VF
from torch.nn.utils import rnn

from levin_train import torch_patches
from levin_train.errors import refuse

# Added to the gates of an LSTM beyond a sequence's end, in the order of torch's weights: input, forget, cell, output. The cell then keeps
# its value, to the bit, as a sigmoid of it is 0 or 1.
_GATES = (-1e4, 1e4, 0.0, 0.0)


class Lengths:
    """Of the sequences of a batch, the longest first. Tensors have the shape [time, batch, ...], and packed ones [rows, ...]."""

    def __init__(self, lengths, time):
        self.lengths = lengths
        self.mask = torch.arange(time, device=lengths.device)[:, None] < lengths[None]
        self.batch_sizes = self.mask.sum(1)
        self._rows = self.mask.reshape(-1).nonzero()[:, 0]

    def packed(self, padded):
        return padded.flatten(0, 1).index_select(0, self._rows)

    def padded(self, data):
        whole = data.new_zeros(self.mask.numel(), *data.shape[1:]).index_copy(0, self._rows, data)
        return whole.unflatten(0, self.mask.shape)

    def filled(self, padded, value=0):
        """With a value beyond the sequences' ends."""
        mask = self.mask.reshape(*self.mask.shape, *[1] * (padded.dim() - 2))
        return torch.where(mask, padded, torch.full((), value, dtype=padded.dtype, device=padded.device))

    def reversed(self, padded):
        """Each sequence from its end to its begin. What is beyond the end stays there."""
        time = torch.arange(self.mask.shape[0], device=self.lengths.device)[:, None].expand(self.mask.shape)
        source = torch.where(self.mask, self.lengths[None] - 1 - time, time)
        return padded.gather(0, source[:, :, None].expand(padded.shape))

    def last(self, padded):
        """The last row of each sequence, of the shape [1, batch, ...]."""
        return padded.gather(0, (self.lengths - 1)[None, :, None].expand(1, *padded.shape[1:]))


class Packs:
    """The packed sequences of a step. `decide`: makes a condition of the package."""

    def __init__(self, decide):
        self._decide = decide
        self._lengths = {}  # by the identity of a tensor of batch sizes
        self._padded = {}  # (packed tensor, padded tensor), by the identity of the first

    def pack(self, function, padded, lengths, batch_first):
        """torch._VF._pack_padded_sequence()"""
        padded = padded.transpose(0, 1) if batch_first else padded
        fits = (lengths > 0).all() & (lengths <= padded.shape[0]).all() & (lengths[:-1] >= lengths[1:]).all()
        if not self._decide(fits):
            function(padded.transpose(0, 1) if batch_first else padded, lengths, batch_first)  # which says what is wrong
        of_batch = Lengths(lengths, padded.shape[0])
        self._lengths[id(of_batch.batch_sizes)] = of_batch
        return self._pack(of_batch, padded), of_batch.batch_sizes

    def _pack(self, lengths, padded):
        padded = lengths.filled(padded)
        data = lengths.packed(padded)
        self._padded[id(data)] = (data, padded)
        return data

    def _pad(self, lengths, data):
        return self._padded[id(data)][1] if id(data) in self._padded else lengths.padded(data)

    def pad(self, function, data, batch_sizes, batch_first, padding_value, total_length):
        """torch._VF._pad_packed_sequence()"""
        lengths = self._lengths.get(id(batch_sizes))
        if lengths is None:
            return function(data, batch_sizes, batch_first, padding_value, total_length)
        if _total_length() is None and not self._decide(lengths.lengths.amax() == lengths.mask.shape[0]):
            refuse("the longest sequence of the batch is shorter than the batch is padded to, so that pad_packed_sequence() gives a tensor whose length "
                   "comes from data", "Give it total_length=x.shape[1] (x.shape[0] without batch_first), or pad batches to their longest sequence")
        padded = lengths.filled(self._pad(lengths, data), padding_value)
        if total_length != lengths.mask.shape[0]:
            padded = F.pad(padded, (*[0, 0] * (padded.dim() - 1), 0, total_length - lengths.mask.shape[0]), value=padding_value)
        return padded.transpose(0, 1) if batch_first else padded, lengths.lengths

    def layers(self):
        """While it lasts, nn.LSTM, nn.GRU and nn.RNN compute what is packed here so."""
        def forward(original, module, input, hx=None):
            lengths = self._lengths.get(id(input.batch_sizes)) if isinstance(input, rnn.PackedSequence) else None
            if lengths is None:
                return original(module, input, hx)
            with torch._C.DisableTorchFunction():
                return self._computed(module, input, hx, lengths)

        return torch_patches.recurrent_modules(forward)

    def _computed(self, module, input, hx, lengths):
        states = _states(module, input, hx, lengths.mask.shape[1])
        directions, finals = 2 if module.bidirectional else 1, []
        padded = self._pad(lengths, input.data)
        for layer in range(module.num_layers):
            outputs = []
            for direction in range(directions):
                index = layer * directions + direction
                output, final = _direction(module, index, padded, [state[index:index + 1] for state in states], lengths, direction == 1)
                outputs.append(output)
                finals.append(final)
            padded = outputs[0] if directions == 1 else torch.cat(outputs, 2)
            if layer + 1 < module.num_layers and module.dropout and module.training:
                padded = lengths.padded(F.dropout(lengths.packed(padded), module.dropout, True))
        data = self._pack(lengths, padded)
        ends = tuple(torch.cat(parts) for parts in zip(*finals))
        output = rnn.PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices)
        return output, module.permute_hidden(ends if module.mode == "LSTM" else ends[0], input.unsorted_indices)


def _total_length():
    """What the user has given pad_packed_sequence(), which hands on the length of the batch in its place."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code is not rnn.pad_packed_sequence.__code__:
        frame = frame.f_back
    return frame.f_locals["total_length"] if frame else None


def _states(module, input, hx, rows):
    """The first states of all layers: [hidden], and of an LSTM the cells too."""
    if hx is not None:
        hx = module.permute_hidden(hx, input.sorted_indices)
        return hx if module.mode == "LSTM" else [hx]
    count = module.num_layers * (2 if module.bidirectional else 1)
    hidden = input.data.new_zeros(count, rows, module.proj_size or module.hidden_size)
    return [hidden, input.data.new_zeros(count, rows, module.hidden_size)] if module.mode == "LSTM" else [hidden]


_FUNCTIONS = {"LSTM": _VF.lstm, "GRU": _VF.gru, "RNN_TANH": _VF.rnn_tanh, "RNN_RELU": _VF.rnn_relu}


def _direction(module, index, padded, states, lengths, backward):
    """What one direction of a layer gives, and its last states."""
    weights = list(module.all_weights[index])
    padded = lengths.reversed(padded) if backward else padded
    is_lstm = module.mode == "LSTM"
    if is_lstm:
        gates = torch.tensor(_GATES, dtype=weights[0].dtype).repeat_interleave(module.hidden_size)
        weights[0] = torch.cat([weights[0], gates[:, None]], 1)
        padded = torch.cat([padded, (~lengths.mask)[:, :, None].to(padded.dtype)], 2)
    output, *rest = _FUNCTIONS[module.mode](padded, tuple(states) if is_lstm else states[0], weights, module.bias, 1, 0.0, module.training, False, False)
    finals = [lengths.last(output), *rest[1:]]
    return lengths.reversed(output) if backward else output, finals
