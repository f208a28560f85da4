#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/base/fwd.h"

namespace levin {

class Checkpoint;

/// Puts a tensor into a checkpoint. A sparse one is stored as two, its indices and values, without coalescing: elements with
/// equal indices are added only when an uninterrupted run would add them.
void save_tensor(Checkpoint& checkpoint, const std::string& name, const at::Tensor& tensor);

/// The sparse tensor of this name and shape; undefined where there is none. Throws ConfigError where its indices do not fit.
at::Tensor saved_sparse_tensor(const Checkpoint& checkpoint, const std::string& name, at::IntArrayRef sizes);

/// What the sparse tensor is called of which `part` is the indices.
std::optional<std::string> name_of_sparse_tensor(std::string_view part);
/// `part` is the values of a sparse tensor.
bool is_of_sparse_values(std::string_view part);

/// Puts the state of a run's optimizer number `index` into a checkpoint, in PyTorch's layout: tensors as
/// `optimizer_states.<index>.state.<parameter>.<field>`, where parameters are counted through all groups; numbers and the
/// groups' options in the manifest, under `optimizer_states`. Optimizers are saved in order, from 0. Tensors share memory with
/// the optimizer: save the checkpoint before the next step.
/// A class that is neither a DescribedOptimizer nor derived from one of LibTorch's is asked by its save(), and its
/// archive is one tensor, `optimizer_states.<index>.archive`. Throws MisuseError when such a one has state and no save().
void save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint);

/// The tensors of that state themselves; of a sparse one its indices and values. None of a class that does not name its state.
std::vector<at::Tensor> state_tensors(const torch::optim::Optimizer& optimizer);

/// Restores what save_optimizer() put there: the state of every parameter, and the options of the groups, learning rates
/// included. Throws ConfigError when the checkpoint has no such optimizer, or one of another class, number of groups or
/// parameters, or shape; the optimizer is then unchanged.
void load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint);

}  // namespace levin
