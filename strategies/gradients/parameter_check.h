#pragma once

#include <torch/nn/module.h>

#include <functional>

#include "levin/core/protocol/control_group.h"

namespace levin {

/// Compares the names, shapes, types and trainability of parameters and buffers over ranks, before anything of them is
/// exchanged. Ranks: all. Throws DesyncError on every rank, naming the first that differs from rank 0's.
void check_same_parameters(const torch::nn::Module& module, ControlGroup& group);

/// Compares them again, after some were frozen, unfrozen, added or replaced, and that it was the same ones: those of which
/// other ranks lack the value, and those of which they have not reduced the gradient so far. Ranks: all. Throws DesyncError
/// likewise.
void check_same_changes(const torch::nn::Module& module, ControlGroup& group,
                        const std::function<bool(const at::Tensor&)>& lacks_value,
                        const std::function<bool(const at::Tensor&)>& lacks_reduction);

}  // namespace levin
