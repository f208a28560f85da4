#pragma once

#include <torch/nn/module.h>

#include <vector>

#include "levin/core/protocol/control_group.h"

namespace levin {

class ProcessWorld;

/// The parameters of a module whose gradients have no place in the buckets of a c10d::Reducer: those of complex numbers, and
/// the weights of torch::nn::Embedding and EmbeddingBag with `sparse`.
std::vector<at::Tensor> parameters_apart(const torch::nn::Module& module);

/// Makes the gradients of parameters their mean over ranks, also of those that are frozen by now: what they have may come from
/// batches that were not reduced. Sparse ones stay sparse on the CPU, unless some rank's is dense; where no rank has one, there
/// is none. Ranks: all, with the same parameters.
void reduce_apart(ProcessWorld& world, const std::vector<at::Tensor>& parameters, const Meeting& meeting);

/// The same memory as numbers that every backend knows.
at::Tensor as_real(const at::Tensor& tensor);

}  // namespace levin
