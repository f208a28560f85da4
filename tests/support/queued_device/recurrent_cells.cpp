#include <torch/library.h>
#include <torch/torch.h>

#include <optional>
#include <tuple>
#include <vector>

// Cells of LSTM and GRU: LibTorch uses a device's own instead of its CPU version. They are made of other
// operators.
namespace levin::test::queued {

namespace {

using at::Tensor;
using Maybe = std::optional<Tensor>;

Tensor or_zero(const Maybe& tensor, const Tensor& like) { return tensor && tensor->defined() ? *tensor : at::zeros_like(like); }
Tensor with_bias(const Tensor& gates, const Maybe& bias) { return bias && bias->defined() ? gates + *bias : gates; }

/// Gives the output, the cell, and the gates for the backward pass: input, forget, new, output.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cell,
                                             const Maybe& input_bias, const Maybe& hidden_bias) {
  const auto raw = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const std::vector<Tensor> gates = {raw[0].sigmoid(), raw[1].sigmoid(), raw[2].tanh(), raw[3].sigmoid()};
  const Tensor next = gates[1] * cell + gates[0] * gates[2];
  return {gates[3] * next.tanh(), next, at::cat(gates, 1)};
}

/// Gradients of the gates, the cell and the biases.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const Maybe& of_output, const Maybe& of_next, const Tensor& cell,
                                                      const Tensor& next, const Tensor& workspace, bool has_bias) {
  const auto gates = workspace.chunk(4, 1);
  const Tensor output = or_zero(of_output, next);
  const Tensor wave = next.tanh();
  const Tensor of_cell = or_zero(of_next, next) + output * gates[3] * (1 - wave * wave);
  const auto of_sigmoid = [](const Tensor& gradient, const Tensor& gate) { return gradient * gate * (1 - gate); };
  const Tensor of_gates = at::cat({of_sigmoid(of_cell * gates[2], gates[0]), of_sigmoid(of_cell * cell, gates[1]),
                                   of_cell * gates[0] * (1 - gates[2] * gates[2]), of_sigmoid(output * wave, gates[3])},
                                  1);
  return {of_gates, of_cell * gates[1], has_bias ? of_gates.sum(0) : Tensor()};
}

/// Gives the output, and for the backward pass: reset and update gate, new values, the input, and the hidden part of new.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                    const Maybe& input_bias, const Maybe& hidden_bias) {
  const auto of_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto of_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (of_input[0] + of_hidden[0]).sigmoid();
  const Tensor update = (of_input[1] + of_hidden[1]).sigmoid();
  const Tensor made = (of_input[2] + reset * of_hidden[2]).tanh();
  return {made + update * (hidden - made), at::cat({reset, update, made, hidden, of_hidden[2]}, 1)};
}

/// Gradients of the gates of input and hidden, of hidden, and of both biases.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& of_output, const Tensor& workspace,
                                                                     bool has_bias) {
  const auto kept = workspace.chunk(5, 1);
  const Tensor &reset = kept[0], &update = kept[1], &made = kept[2], &hidden = kept[3], &hidden_part = kept[4];
  const Tensor of_made = of_output * (1 - update) * (1 - made * made);
  const Tensor of_update = of_output * (hidden - made) * update * (1 - update);
  const Tensor of_reset = of_made * hidden_part * reset * (1 - reset);
  const Tensor of_input = at::cat({of_reset, of_update, of_made}, 1);
  const Tensor of_hidden = at::cat({of_reset, of_update, of_made * reset}, 1);
  return {of_input, of_hidden, of_output * update, has_bias ? of_input.sum(0) : Tensor(),
          has_bias ? of_hidden.sum(0) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_thnn_fused_lstm_cell", &lstm_cell);
  library.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  library.impl("_thnn_fused_gru_cell", &gru_cell);
  library.impl("_thnn_fused_gru_cell_backward", &gru_cell_backward);
}

}  // namespace

}  // namespace levin::test::queued
