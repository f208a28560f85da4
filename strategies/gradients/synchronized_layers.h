#pragma once

#include <torch/nn/module.h>

namespace levin {

/// A layer of the module takes its statistics over all ranks: each of them needs a batch.
bool has_synchronized_layers(const torch::nn::Module& module);

/// True when such a layer has met other ranks in a forward pass since the last call.
bool took_synchronized_forward();

}  // namespace levin
