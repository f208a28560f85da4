"""GRUs and the layers of nn.RNN in a graph: one call for a whole sequence forward and one backward, as recurrent.py has it for LSTMs.

What the steps have in common is computed at once: the products with the input, and backward those with the weights. The formulas are those
of torch.nn.GRU's documentation; a step's gates r and z, its candidate n, and what r multiplies, are kept for the backward pass.
"""

import torch
from torch._decomp import decompositions

from levin_train.shims import shim

_LIBRARY = torch.library.Library("levin", "FRAGMENT")
_LIBRARY.define("gru_layer(Tensor input, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor hx, bool reverse) -> (Tensor, Tensor, Tensor)")
_LIBRARY.define("gru_layer_backward(Tensor input, Tensor w_ih, Tensor w_hh, Tensor hx, Tensor output, Tensor gates, Tensor grad_output, "
                "Tensor grad_hy, bool reverse) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")
_LIBRARY.define("rnn_layer(Tensor input, Tensor w_ih, Tensor w_hh, Tensor b_ih, Tensor b_hh, Tensor hx, bool reverse, bool relu) -> (Tensor, Tensor)")
_LIBRARY.define("rnn_layer_backward(Tensor input, Tensor w_ih, Tensor w_hh, Tensor hx, Tensor output, Tensor grad_output, Tensor grad_hy, "
                "bool reverse, bool relu) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)")


@torch.library.register_fake("levin::gru_layer")
def _(input, w_ih, w_hh, b_ih, b_hh, hx, reverse):
    length, rows, size = *input.shape[:2], hx.shape[2]
    return input.new_empty(length, rows, size), torch.empty_like(hx), input.new_empty(length, rows, 4 * size)


@torch.library.register_fake("levin::rnn_layer")
def _(input, w_ih, w_hh, b_ih, b_hh, hx, reverse, relu):
    return input.new_empty(*input.shape[:2], hx.shape[2]), torch.empty_like(hx)


def _gradients(input, w_ih, w_hh, hx, *_):
    biases = [w_ih.new_empty(w_ih.shape[0])] * 2
    return tuple(tensor.new_empty(tensor.shape) for tensor in (input, w_ih, w_hh, *biases, hx))


torch.library.register_fake("levin::gru_layer_backward")(_gradients)
torch.library.register_fake("levin::rnn_layer_backward")(_gradients)


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx, reverse, input, w_ih, w_hh, b_ih, b_hh, hx):
        output, hy, gates = torch.ops.levin.gru_layer(input, w_ih, w_hh, b_ih, b_hh, hx, reverse)
        ctx.save_for_backward(input, w_ih, w_hh, hx, output, gates)
        ctx.reverse = reverse
        return output, hy

    @staticmethod
    def backward(ctx, *outer):
        return None, *torch.ops.levin.gru_layer_backward(*ctx.saved_tensors, *(each.contiguous() for each in outer), ctx.reverse)


class _Rnn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, reverse, relu, input, w_ih, w_hh, b_ih, b_hh, hx):
        output, hy = torch.ops.levin.rnn_layer(input, w_ih, w_hh, b_ih, b_hh, hx, reverse, relu)
        ctx.save_for_backward(input, w_ih, w_hh, hx, output)
        ctx.options = (reverse, relu)
        return output, hy

    @staticmethod
    def backward(ctx, *outer):
        return None, None, *torch.ops.levin.rnn_layer_backward(*ctx.saved_tensors, *(each.contiguous() for each in outer), *ctx.options)


_STEP_BY_STEP = decompositions.one_layer_rnn


def layer(input, hidden, params, has_biases, hidden_fn, reverse=False):
    """A layer of a GRU or an nn.RNN, in place of torch's decomposition; `hidden_fn` is what that computes in a step."""
    tensors = [input, hidden, *params]
    if torch.is_autocast_enabled("cpu") or any(tensor.dtype != input.dtype or tensor.dtype not in (torch.float32, torch.float64) for tensor in tensors):
        return _STEP_BY_STEP(input, hidden, params, has_biases, hidden_fn, reverse)
    biases = params[2:4] if has_biases else [params[0].new_zeros(params[0].shape[0])] * 2
    given = (input.contiguous(), *params[:2], *biases, hidden.unsqueeze(0).contiguous())
    if hidden_fn is decompositions.gru_cell:
        output, hy = _Gru.apply(reverse, *given)
    else:  # made by rnn_cell(torch.tanh) or rnn_cell(torch.relu)
        output, hy = _Rnn.apply(reverse, hidden_fn.__closure__[0].cell_contents is torch.relu, *given)
    return output, hy.squeeze(0)


def _tensors(*names):
    return [f"AtenTensorHandle {name}" for name in names]


_HEADERS = ("ATen/core/Tensor.h", "ATen/core/LegacyTypeDispatch.h", *(f"ATen/ops/{name}.h" for name in (
    "add", "addcmul", "addmm", "cat", "lerp", "linear", "mul", "relu", "tanh")))
_LAYER = ("x", "w_ih", "w_hh", "b_ih", "b_hh", "hx")
_BACKWARD = ("x", "w_ih", "w_hh", "hx", "y")
_OUTER = ("grad_y", "grad_hy")
_BEGIN = """[&] {
  const at::AutoDispatchBelowAutograd no_gradients;
  const at::Tensor input = given(x), of_input = given(w_ih), of_hidden = given(w_hh), first = given(hx);
  const int64_t length = input.size(0), rows = input.size(1), size = first.size(2);
  const auto one_minus = [](const at::Tensor& tensor) { return tensor.neg().add_(1); };
  const auto step = [&](int64_t index) { return reverse ? length - 1 - index : index; };
"""
_FORWARD = """
  const at::Tensor transposed = of_hidden.t(), bias = given(b_hh);
  at::Tensor inputs = at::linear(input, of_input, given(b_ih)), output = input.new_empty({length, rows, size}), hidden = first[0];
"""
# The state before each step, and the gradients of what a step's input and its state before are multiplied to.
_BACKWARD_BEGIN = """
  const at::Tensor output = given(y), outer = given(grad_y);
  const at::Tensor before = length == 1 ? first : reverse ? at::cat({output.narrow(0, 1, length - 1), first})
                                                          : at::cat({first, output.narrow(0, 0, length - 1)});
  at::Tensor next = given(grad_hy)[0];
"""
_BACKWARD_END = """
  const auto rows_of = [](const at::Tensor& tensor) { return tensor.reshape({-1, tensor.size(2)}); };
  const at::Tensor inputs = rows_of(of_inputs), states = rows_of(of_states);
  return std::make_tuple(inputs.mm(of_input).reshape(input.sizes()), inputs.t().mm(rows_of(input)), states.t().mm(rows_of(before)),
                         inputs.sum(0), states.sum(0), next.unsqueeze(0));
}()"""
_GRU = _BEGIN + _FORWARD + """
  at::Tensor gates = input.new_empty({length, rows, 4 * size}), of_state = input.new_empty({rows, 3 * size});
  for (int64_t index = 0; index < length; ++index) {
    const at::Tensor in = inputs[step(index)], its = gates[step(index)];
    at::Tensor rz = its.narrow(1, 0, 2 * size), n = its.narrow(1, 2 * size, size), state_of_n = its.narrow(1, 3 * size, size);
    at::addmm_out(of_state, bias, hidden, transposed);
    at::add_out(rz, in.narrow(1, 0, 2 * size), of_state.narrow(1, 0, 2 * size)).sigmoid_();
    state_of_n.copy_(of_state.narrow(1, 2 * size, size));
    at::addcmul_out(n, in.narrow(1, 2 * size, size), rz.narrow(1, 0, size), state_of_n).tanh_();
    hidden = output[step(index)];
    at::lerp_out(hidden, n, index == 0 ? first[0] : output[step(index - 1)], rz.narrow(1, size, size));
  }
  return std::make_tuple(output, hidden.unsqueeze(0).clone(), gates);
}()"""
_GRU_BACKWARD = _BEGIN + _BACKWARD_BEGIN + """
  const at::Tensor kept = given(gates), r = kept.narrow(2, 0, size), z = kept.narrow(2, size, size), n = kept.narrow(2, 2 * size, size);
  const at::Tensor of_z = before.sub(n).mul_(z).mul_(one_minus(z)), of_n = one_minus(n.square()).mul_(one_minus(z));
  const at::Tensor of_r = one_minus(r).mul_(r).mul_(kept.narrow(2, 3 * size, size));
  at::Tensor of_inputs = input.new_empty({length, rows, 3 * size}), of_states = input.new_empty({length, rows, 3 * size});
  for (int64_t index = length - 1; index >= 0; --index) {
    const int64_t place = step(index);
    const at::Tensor gradient = outer[place].add(next), its = of_inputs[place], state = of_states[place];
    at::Tensor its_r = its.narrow(1, 0, size), its_z = its.narrow(1, size, size), its_n = its.narrow(1, 2 * size, size);
    at::Tensor state_n = state.narrow(1, 2 * size, size);
    at::mul_out(its_n, gradient, of_n[place]);
    at::mul_out(its_z, gradient, of_z[place]);
    at::mul_out(its_r, its_n, of_r[place]);
    state.narrow(1, 0, 2 * size).copy_(its.narrow(1, 0, 2 * size));
    at::mul_out(state_n, its_n, r[place]);
    next = at::addmm(gradient.mul(z[place]), state, of_hidden);
  }
""" + _BACKWARD_END
_RNN = _BEGIN + _FORWARD + """
  for (int64_t index = 0; index < length; ++index) {
    const at::Tensor before = hidden;
    hidden = output[step(index)];
    at::addmm_out(hidden, bias, before, transposed).add_(inputs[step(index)]);
    relu ? hidden.relu_() : hidden.tanh_();
  }
  return std::make_tuple(output, hidden.unsqueeze(0).clone());
}()"""
_RNN_BACKWARD = _BEGIN + _BACKWARD_BEGIN + """
  const at::Tensor slope = relu ? output.gt(0).to(output.scalar_type()) : one_minus(output.square());
  at::Tensor of_inputs = input.new_empty({length, rows, size});
  for (int64_t index = length - 1; index >= 0; --index) {
    at::Tensor its = of_inputs[step(index)];
    at::add_out(its, outer[step(index)], next).mul_(slope[step(index)]);
    next = its.mm(of_hidden);
  }
  const at::Tensor of_states = of_inputs;
""" + _BACKWARD_END
SHIMS = {
    torch.ops.levin.gru_layer.default: [shim("gru_layer", [*_tensors(*_LAYER), "int32_t reverse"], 3, _HEADERS, _GRU)],
    torch.ops.levin.gru_layer_backward.default: [
        shim("gru_layer_backward", [*_tensors(*_BACKWARD, "gates", *_OUTER), "int32_t reverse"], 6, _HEADERS, _GRU_BACKWARD)],
    torch.ops.levin.rnn_layer.default: [shim("rnn_layer", [*_tensors(*_LAYER), "int32_t reverse", "int32_t relu"], 2, _HEADERS, _RNN)],
    torch.ops.levin.rnn_layer_backward.default: [
        shim("rnn_layer_backward", [*_tensors(*_BACKWARD, *_OUTER), "int32_t reverse", "int32_t relu"], 6, _HEADERS, _RNN_BACKWARD)],
}
