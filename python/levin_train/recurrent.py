"""LSTMs in a graph: oneDNN's layer, as eager's have it, with one call for a whole sequence forward and one backward.

torch's own decomposition takes a step of the sequence at a time when gradients are wanted: a graph of hundreds of operations, which
compiles for minutes and fixes the length. The two operators of this module stand in the graph.
"""

import torch
from torch._decomp import decompositions

from levin_train.shims import shim

_LIBRARY = torch.library.Library("levin", "DEF")
_LIBRARY.define("lstm_layer(Tensor input, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor hx, Tensor cx, bool reverse, "
                "bool train) -> (Tensor, Tensor, Tensor, Tensor)")
_LIBRARY.define("lstm_layer_backward(Tensor input, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor hx, Tensor cx, "
                "Tensor output, Tensor hy, Tensor cy, Tensor grad_output, Tensor grad_hy, Tensor grad_cy, bool reverse, "
                "Tensor workspace) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")


@torch.library.register_fake("levin::lstm_layer")
def _(input, w_ih, w_hh, b_ih, b_hh, hx, cx, reverse, train):
    output = input.new_empty(input.shape[0], input.shape[1], hx.shape[2])
    return output, torch.empty_like(hx), torch.empty_like(cx), input.new_empty(0, dtype=torch.uint8)


@torch.library.register_fake("levin::lstm_layer_backward")
def _(input, w_ih, w_hh, b_ih, b_hh, hx, cx, output, hy, cy, grad_output, grad_hy, grad_cy, reverse, workspace):
    return tuple(tensor.new_empty(tensor.shape) for tensor in (input, w_ih, w_hh, b_ih, b_hh, hx, cx))


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, reverse, *tensors):
        results = torch.ops.levin.lstm_layer(*tensors, reverse, True)
        ctx.save_for_backward(*tensors, *results)
        ctx.reverse = reverse
        return results[:3]

    @staticmethod
    def backward(ctx, *gradients):
        *tensors, workspace = ctx.saved_tensors
        gradients = [gradient.contiguous() for gradient in gradients]
        return None, *torch.ops.levin.lstm_layer_backward(*tensors, *gradients, ctx.reverse, workspace)


def _lstm_layer(input, hidden, weights, has_biases, reverse=False):
    biases = weights[2:4] if has_biases else [weights[0].new_zeros(weights[0].shape[0])] * 2
    states = [state.unsqueeze(0).contiguous() for state in hidden]
    tensors = [input.contiguous(), *weights[:2], *biases, *states]
    if torch.is_grad_enabled():
        output, hy, cy = _Layer.apply(reverse, *tensors)
    else:
        output, hy, cy, _ = torch.ops.levin.lstm_layer(*tensors, reverse, False)
    return output, (hy.squeeze(0), cy.squeeze(0))


def lstm_layer_for(input, hx, params):
    """What computes a layer of an LSTM: oneDNN where it knows the type of numbers, and the output has the size of the state."""
    tensors = [input, *hx, *(tensor for layer in params for tensor in layer)]
    known = all(tensor.dtype == torch.float32 for tensor in tensors) and hx[0].shape[2] == hx[1].shape[2]
    return _lstm_layer if known and torch.backends.mkldnn.is_available() else decompositions.one_layer_lstm


_TENSORS = [f"AtenTensorHandle {name}" for name in ("x", "w_ih", "w_hh", "b_ih", "b_hh", "hx", "cx")]
_HEADERS = ("ATen/ops/mkldnn_rnn_layer.h", "ATen/ops/mkldnn_rnn_layer_backward.h", "ATen/ops/zeros_like.h")
_SEQUENCE = "given(x), given(w_ih), given(w_hh), given(b_ih), given(b_hh), given(hx), given(cx)"
# oneDNN divides by the number of rows. Kind of layer (2: LSTM), size of the state, and one layer; LibTorch keeps what the backward pass needs only where gradients are on.
SHIMS = {
    torch.ops.levin.lstm_layer.default: [shim(
        "lstm_layer", [*_TENSORS, "int32_t reverse", "int32_t train"], 4, _HEADERS,
        "[&] { c10::AutoGradMode mode(train); c10::impl::ExcludeDispatchKeyGuard plain(c10::autograd_dispatch_keyset); "
        "if (given(x).numel() == 0) return std::make_tuple(given(x).new_empty({given(x).size(0), given(x).size(1), given(hx).size(2)}), given(hx).clone(), "
        "given(cx).clone(), given(x).new_empty({0})); "
        f"auto [output, hy, cy, workspace] = at::mkldnn_rnn_layer({_SEQUENCE}, reverse, {{}}, 2, given(hx).size(2), 1, true, false, "
        "false, train); if (!workspace.defined()) workspace = output.new_empty({0}); "
        "return std::make_tuple(output, hy, cy, workspace); }()")],
    torch.ops.levin.lstm_layer_backward.default: [shim(
        "lstm_layer_backward",
        [*_TENSORS, *(f"AtenTensorHandle {name}" for name in ("y", "hy", "cy", "grad_y", "grad_hy", "grad_cy")), "int32_t reverse",
         "AtenTensorHandle workspace"], 7, _HEADERS,
        "given(x).numel() == 0 ? std::make_tuple(at::zeros_like(given(x)), at::zeros_like(given(w_ih)), at::zeros_like(given(w_hh)), "
        "at::zeros_like(given(b_ih)), at::zeros_like(given(b_hh)), at::zeros_like(given(hx)), at::zeros_like(given(cx))) : "
        f"at::mkldnn_rnn_layer_backward({_SEQUENCE}, given(y), given(hy), given(cy), given(grad_y), given(grad_hy), given(grad_cy), "
        "reverse, 2, given(hx).size(2), 1, true, true, false, {}, false, given(workspace))")],
}
