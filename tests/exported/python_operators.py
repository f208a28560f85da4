"""Levin's operators in Python, for tests that run a graph without compiling it: their code is in packages."""

import contextlib

import torch
import torch.nn.functional as F


@contextlib.contextmanager
def levins_operators():
    """While it lasts, levin's operators, whose code is in packages, run in Python too."""
    library = torch.library.Library("levin", "IMPL")
    state_of = lambda hidden: (2, hidden.shape[2], 1, True)  # noqa: E731 - an LSTM of one layer, with biases

    def lstm_layer(input, w_ih, w_hh, b_ih, b_hh, hx, cx, reverse, train):
        with torch.enable_grad() if train else torch.no_grad(), torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)):
            output, hy, cy, workspace = torch.mkldnn_rnn_layer(input, w_ih, w_hh, b_ih, b_hh, hx, cx, reverse, [], *state_of(hx), False, False, train)
        return output, hy, cy, workspace if workspace is not None else output.new_empty(0)

    def lstm_layer_backward(input, w_ih, w_hh, b_ih, b_hh, hx, cx, output, hy, cy, grad_output, grad_hy, grad_cy, reverse, workspace):
        return torch.ops.aten.mkldnn_rnn_layer_backward(input, w_ih, w_hh, b_ih, b_hh, hx, cx, output, hy, cy, grad_output, grad_hy, grad_cy, reverse,
                                                        *state_of(hx)[:3], True, True, False, [], False, workspace)

    def ctc_loss(log_probs, targets, lengths, target_lengths, blank, zero_infinity, train):
        losses, alpha = torch.ops.aten._ctc_loss.Tensor(log_probs, targets, lengths, target_lengths, blank, zero_infinity)
        given = (torch.ones_like(losses), log_probs, targets, lengths, target_lengths, losses, alpha, blank, zero_infinity)
        return losses, torch.ops.aten._ctc_loss_backward.Tensor(*given) if train else losses.new_empty(0)

    def groups(offsets):
        ends = offsets.tolist()
        return list(zip([0, *ends], ends))

    def grouped_mm(input, weight, offsets):
        return torch.cat([input[begin:end] @ weight[index] for index, (begin, end) in enumerate(groups(offsets))])

    def grouped_mm_backward(input, weight, offsets, gradient):
        of_input = [gradient[begin:end] @ weight[index].T for index, (begin, end) in enumerate(groups(offsets))]
        return torch.cat(of_input), torch.stack([input[begin:end].T @ gradient[begin:end] for begin, end in groups(offsets)])

    for function in (lstm_layer, lstm_layer_backward, gru_layer, gru_layer_backward, rnn_layer, rnn_layer_backward, ctc_loss, grouped_mm, grouped_mm_backward):
        library.impl(function.__name__, function, "CPU")
    try:
        yield
    finally:
        library._destroy()


def _in_order(reverse, *tensors):
    """Their steps in the order in which a layer takes them, or back."""
    return [tensor.flip(0) if reverse else tensor for tensor in tensors]


def gru_layer(input, w_ih, w_hh, b_ih, b_hh, hx, reverse):
    outputs, kept = [hx[0]], []
    for step in _in_order(reverse, F.linear(input, w_ih, b_ih))[0]:
        of_input, of_state = step.chunk(3, 1), F.linear(outputs[-1], w_hh, b_hh).chunk(3, 1)
        r, z = ((of_input[index] + of_state[index]).sigmoid() for index in (0, 1))
        n = (of_input[2] + r * of_state[2]).tanh()
        kept.append(torch.cat([r, z, n, of_state[2]], 1))
        outputs.append((1 - z) * n + z * outputs[-1])
    return *_in_order(reverse, torch.stack(outputs[1:])), outputs[-1][None].clone(), *_in_order(reverse, torch.stack(kept))


def gru_layer_backward(input, w_ih, w_hh, hx, output, gates, grad_output, grad_hy, reverse):
    input, output, gates, grad_output = _in_order(reverse, input, output, gates, grad_output)
    before, after, of_inputs, of_states = torch.cat([hx, output[:-1]]), grad_hy[0], [], []
    for index in reversed(range(len(input))):
        r, z, n, of_state = gates[index].chunk(4, 1)
        gradient = grad_output[index] + after
        of_n = gradient * (1 - z) * (1 - n * n)
        of_r, of_z = of_n * of_state * r * (1 - r), gradient * (before[index] - n) * z * (1 - z)
        of_inputs.insert(0, torch.cat([of_r, of_z, of_n], 1))
        of_states.insert(0, torch.cat([of_r, of_z, of_n * r], 1))
        after = gradient * z + of_states[0] @ w_hh
    return _gradients(reverse, input, before, torch.stack(of_inputs), torch.stack(of_states), w_ih, after)


def rnn_layer(input, w_ih, w_hh, b_ih, b_hh, hx, reverse, relu):
    outputs = [hx[0]]
    for step in _in_order(reverse, F.linear(input, w_ih, b_ih))[0]:
        total = step + F.linear(outputs[-1], w_hh, b_hh)
        outputs.append(total.relu() if relu else total.tanh())
    return *_in_order(reverse, torch.stack(outputs[1:])), outputs[-1][None].clone()


def rnn_layer_backward(input, w_ih, w_hh, hx, output, grad_output, grad_hy, reverse, relu):
    input, output, grad_output = _in_order(reverse, input, output, grad_output)
    after, of_sums = grad_hy[0], []
    for index in reversed(range(len(input))):
        of_sums.insert(0, (grad_output[index] + after) * ((output[index] > 0) if relu else 1 - output[index] ** 2))
        after = of_sums[0] @ w_hh
    return _gradients(reverse, input, torch.cat([hx, output[:-1]]), torch.stack(of_sums), torch.stack(of_sums), w_ih, after)


def _gradients(reverse, input, before, of_inputs, of_states, w_ih, of_hx):
    products = [torch.einsum("tbi,tbj->ij", *pair) for pair in ((of_inputs, input), (of_states, before))]
    return *_in_order(reverse, of_inputs @ w_ih), *products, of_inputs.sum((0, 1)), of_states.sum((0, 1)), of_hx[None].clone()
