#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/engine/state/trainer_state.h"

namespace levin {

/// Which parameters are trained and which group of an optimizer has them, for a checkpoint: as they are, for its optimizers'
/// state; where the run that resumes goes on; and before the hooks that it runs again until then, which may freeze, unfreeze
/// and add what they did before. And which parts of the module are in evaluation mode while the rest trains.
Value parameter_state(TrainerState& run);

/// Gives a run that resumes its trained parameters back, one moment after the other, as parameter_state() has kept them.
class ParameterResume {
 public:
  /// Loads the optimizers' states, with the groups that the checkpoint's optimizers have and the run's lack: they have them
  /// until restore_train_start(). Throws ConfigError when the optimizers do not fit.
  ParameterResume(TrainerState& run, const Checkpoint& checkpoint);

  /// As they were before on_train_start.
  void restore_train_start(TrainerState& run);
  /// As they were before on_train_epoch_start of the epoch in which the run goes on.
  void restore_epoch_start(TrainerState& run);
  /// As the ranks had agreed on them before that place.
  void restore_agreed(TrainerState& run);
  /// As they are where it goes on, with the optimizers' options and the modes of the module's parts.
  void restore_place(TrainerState& run);

 private:
  using Groups = ParameterSet::Groups;
  /// One moment of the run that was saved.
  struct Moment {
    std::set<std::string> frozen;
    std::vector<Groups> optimizers;
  };
  std::optional<Moment> moment(const Value& saved, const char* name) const;
  void restore(TrainerState& run, const std::optional<Moment>& moment);
  /// A parameter that is in no group has no state: LibTorch would not let hooks add it.
  void restore_state(torch::optim::Optimizer& optimizer, std::size_t index);

  std::vector<Groups> saved_;                                          ///< of each optimizer in the checkpoint
  std::vector<std::vector<torch::optim::OptimizerParamGroup>> known_;  ///< the groups of each, with options
  using States = std::map<const at::TensorImpl*, std::unique_ptr<torch::optim::OptimizerParamState>>;
  std::vector<States> set_aside_;      ///< of each, of parameters that no group has for now
  std::vector<Groups> own_;            ///< of each, as the run has made them
  std::optional<Moment> train_start_;  ///< unset: as the run has made them
  std::optional<Moment> epoch_start_;
  std::optional<Moment> agreed_;
  std::optional<Moment> place_;
  std::optional<std::set<std::string>> in_evaluation_;
};

/// The gradients that a module's parameters hold, by name, on the CPU and not shared with the parameters.
std::map<std::string, at::Tensor> gradients_of(const Module& module);
/// Gives parameters these gradients, times `factor`, and all others none. Throws ConfigError when a name or shape is none of
/// the module's.
void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor);

/// The same as bytes and back, between ranks that have equal parameters.
std::string pack_gradients(const std::map<std::string, at::Tensor>& gradients);
std::map<std::string, at::Tensor> unpack_gradients(const Module& module, const std::string& bytes);

}  // namespace levin
