#pragma once

#include <torch/nn/module.h>

#include "levin/core/protocol/control_group.h"

namespace levin {

/// Compares the names, shapes, types and trainability of parameters and buffers over ranks, before anything of them is
/// exchanged. Ranks: all. Throws DesyncError on every rank, naming the first that differs from rank 0's.
void check_same_parameters(const torch::nn::Module& module, ControlGroup& group);

}  // namespace levin
