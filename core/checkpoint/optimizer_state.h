#pragma once

#include <cstddef>

namespace torch::optim {
class Optimizer;
}

namespace levin {

class Checkpoint;

/// Puts the state of a run's optimizer number `index` into a checkpoint, in PyTorch's layout: tensors as
/// `optimizer_states.<index>.state.<parameter>.<field>`, where parameters are counted through all groups; numbers and the
/// groups' options in the manifest, under `optimizer_states`. Optimizers are saved in order, from 0. Tensors share memory with
/// the optimizer: save the checkpoint before the next step.
/// A class that is neither a DescribedOptimizer nor derived from one of LibTorch's is asked by its save(), and its
/// archive is one tensor, `optimizer_states.<index>.archive`. Throws MisuseError when such a one has state and no save().
void save_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index, Checkpoint& checkpoint);

/// Restores what save_optimizer() put there: the state of every parameter, and the options of the groups, learning rates
/// included. Throws ConfigError when the checkpoint has no such optimizer, or one of another class, number of groups or
/// parameters, or shape; the optimizer is then unchanged.
void load_optimizer(torch::optim::Optimizer& optimizer, std::size_t index, const Checkpoint& checkpoint);

}  // namespace levin
