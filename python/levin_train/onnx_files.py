"""A program as a file of ONNX: the operators of levin in it, and the names of what varies."""

import re

import torch

from levin_train.errors import ExportError

_INT64 = 7  # as ONNX numbers types


def write(exported, examples, outputs, path):
    """Writes an exported program. `outputs`: the names of what it gives."""
    try:
        import onnxscript  # noqa: F401 - torch.onnx needs it, and says so less plainly
    except ImportError as error:
        raise ExportError("ONNX needs the packages onnx and onnxscript: pip install onnx onnxscript") from error
    program = torch.onnx.export(exported, args=(), input_names=[each.name for each in examples], output_names=outputs, dynamo=True,
                                custom_translation_table=_translations(), verbose=False)
    _name_dimensions(program.model.graph, [each.dimensions for each in examples])
    program.save(path, external_data=False)


def _translations():
    """recurrent.py's and gru.py's layers as ONNX has them, and grouped.py's products. The layers have [time, batch, features] and the first
    state [1, batch, size]; in ONNX the gates come in another order, and each tensor but the first has the layer's one direction as a
    dimension."""
    from onnxscript import opset18 as op

    def layer(operator, order, tensors, states, reverse, **options):
        x, w_ih, w_hh, b_ih, b_hh = tensors

        def in_order(tensor):
            if len(order) == 1:
                return tensor
            gates = op.Gather(op.Reshape(tensor, [len(order), -1]), order, axis=0)
            return op.Reshape(gates, op.Shape(tensor))

        weights = [op.Unsqueeze(in_order(tensor), [0]) for tensor in (w_ih, w_hh)]
        biases = op.Unsqueeze(op.Concat(in_order(b_ih), in_order(b_hh), axis=0), [0])
        output, *last = operator(x, *weights, biases, None, *states, hidden_size=int(w_hh.shape[1]),
                                 direction="reverse" if reverse else "forward", **options)
        return op.Squeeze(output, [1]), *last

    def unused():  # what training keeps for the backward pass
        return op.Constant(value_float=0.0)

    def lstm_layer(input, w_ih, w_hh, b_ih, b_hh, hx, cx, reverse: bool, train: bool):
        return *layer(op.LSTM, [0, 3, 1, 2], (input, w_ih, w_hh, b_ih, b_hh), (hx, cx), reverse), unused()

    def gru_layer(input, w_ih, w_hh, b_ih, b_hh, hx, reverse: bool):
        return *layer(op.GRU, [1, 0, 2], (input, w_ih, w_hh, b_ih, b_hh), (hx,), reverse, linear_before_reset=1), unused()

    def rnn_layer(input, w_ih, w_hh, b_ih, b_hh, hx, reverse: bool, relu: bool):
        return layer(op.RNN, [0], (input, w_ih, w_hh, b_ih, b_hh), (hx,), reverse, activations=["Relu" if relu else "Tanh"])

    def grouped_mm(input, weight, offsets):
        """ONNX has no such product: each group's matrix is multiplied with all rows, of which the others' are zero."""
        count = op.Squeeze(op.Shape(input, start=0, end=1))
        rows = op.Range(op.Constant(value_int=0), count, op.Constant(value_int=1))
        has_ended = op.LessOrEqual(op.Unsqueeze(op.Cast(offsets, to=_INT64), [1]), op.Unsqueeze(rows, [0]))
        group_of_row = op.ReduceSum(op.Cast(has_ended, to=_INT64), [0], keepdims=0)
        products = []
        for group in range(int(weight.shape[0])):
            is_of_it = op.Unsqueeze(op.Equal(group_of_row, op.Constant(value_int=group)), [1])
            own_rows = op.Where(is_of_it, input, op.CastLike(op.Constant(value_float=0.0), input))
            products.append(op.MatMul(own_rows, op.Gather(weight, op.Constant(value_int=group), axis=0)))
        return op.Sum(*products)

    return {torch.ops.levin.lstm_layer.default: lstm_layer, torch.ops.levin.gru_layer.default: gru_layer,
            torch.ops.levin.rnn_layer.default: rnn_layer, torch.ops.levin.grouped_mm.default: grouped_mm}


def _name_dimensions(graph, dimensions):
    """Gives dimensions that vary the names that the package has for them, instead of torch's."""
    from onnxscript import ir

    names = {}
    for value, wanted in zip(graph.inputs, dimensions):
        for size, name in zip(value.shape, wanted):
            if isinstance(size, ir.SymbolicDim) and isinstance(name, str):
                names.setdefault(size.value, name)

    def renamed(size):
        if not isinstance(size, ir.SymbolicDim) or size.value is None:
            return size
        return re.sub(r"\w+", lambda found: names.get(found[0], found[0]), size.value)

    for value in {id(value): value for value in [*graph.inputs, *(output for node in graph.all_nodes() for output in node.outputs)]}.values():
        if value.shape is not None:
            value.shape = ir.Shape([renamed(size) for size in value.shape])
