#pragma once

#include <torch/torch.h>

#include <limits>
#include <tuple>

namespace levin::benchmarks {

namespace nn = torch::nn;

/// A residual block of two convolutions; it halves the image where it has more channels than it gets.
class BlockImpl : public nn::Module {
 public:
  BlockImpl(std::int64_t from, std::int64_t to)
      : first_(conv("first", from, to, 3, from == to ? 1 : 2)),
        first_norm_(register_module("first_norm", nn::BatchNorm2d(to))),
        second_(conv("second", to, to, 3, 1)),
        second_norm_(register_module("second_norm", nn::BatchNorm2d(to))) {
    if (from != to) shortcut_ = conv("shortcut", from, to, 1, 2);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto inner = second_norm_(second_(torch::relu(first_norm_(first_(x)))));
    return torch::relu(inner + (shortcut_ ? shortcut_(x) : x));
  }

 private:
  nn::Conv2d conv(const char* name, std::int64_t from, std::int64_t to, std::int64_t kernel, std::int64_t stride) {
    return register_module(name,
                           nn::Conv2d(nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false)));
  }

  nn::Conv2d first_{nullptr};
  nn::BatchNorm2d first_norm_;
  nn::Conv2d second_{nullptr};
  nn::BatchNorm2d second_norm_;
  nn::Conv2d shortcut_{nullptr};
};
TORCH_MODULE(Block);

/// Reads characters, and says which comes next after each.
class TransformerImpl : public nn::Module {
 public:
  TransformerImpl()
      : embedding_(register_module("embedding", nn::Embedding(96, 192))),
        encoder_(
            register_module("encoder", nn::TransformerEncoder(nn::TransformerEncoderOptions(
                                           nn::TransformerEncoderLayerOptions(192, 6).dim_feedforward(768).dropout(0), 4)))),
        head_(register_module("head", nn::Linear(192, 96))) {}
  torch::Tensor forward(const torch::Tensor& characters) {
    const auto length = characters.size(1);
    const auto mask = torch::full({length, length}, -std::numeric_limits<float>::infinity()).triu(1);
    return head_(encoder_(embedding_(characters).transpose(0, 1), mask).transpose(0, 1)).flatten(0, 1);
  }

 private:
  nn::Embedding embedding_;
  nn::TransformerEncoder encoder_;
  nn::Linear head_;
};
TORCH_MODULE(Transformer);

/// The same with two recurrent layers.
class LstmImpl : public nn::Module {
 public:
  LstmImpl()
      : embedding_(register_module("embedding", nn::Embedding(96, 192))),
        lstm_(register_module("lstm", nn::LSTM(nn::LSTMOptions(192, 192).num_layers(2).batch_first(true)))),
        head_(register_module("head", nn::Linear(192, 96))) {}
  torch::Tensor forward(const torch::Tensor& characters) {
    return head_(std::get<0>(lstm_(embedding_(characters)))).flatten(0, 1);
  }

 private:
  nn::Embedding embedding_;
  nn::LSTM lstm_;
  nn::Linear head_;
};
TORCH_MODULE(Lstm);

}  // namespace levin::benchmarks
