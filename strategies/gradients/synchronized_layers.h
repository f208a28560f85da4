#pragma once

#include <torch/nn/module.h>

#include <string>

namespace levin {

/// The BatchNorm layers of a module work as SyncBatchNorm, until the entry point ends, and in place of those of earlier calls.
void set_synchronized_layers(const torch::nn::Module& module);

/// A layer of the module takes its statistics over all ranks: each of them needs a batch.
bool has_synchronized_layers(const torch::nn::Module& module);

/// True when such a layer has met other ranks in a forward pass since the last call.
bool took_synchronized_forward();

/// One forward pass of a layer in training, over the batches of all ranks. `layer`: "SyncBatchNorm of 64 features".
struct BatchNormArguments {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  double momentum = 0;
  double eps = 0;
};
at::Tensor synchronized_batch_norm(const at::Tensor& input, const BatchNormArguments& arguments, const std::string& layer);

}  // namespace levin
