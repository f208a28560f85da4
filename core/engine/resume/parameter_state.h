#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <map>
#include <memory>
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
  /// Moments of the run that was saved.
  static constexpr const char* kTrainStart = "train_start";  ///< before on_train_start
  static constexpr const char* kEpochStart = "epoch_start";  ///< before on_train_epoch_start of the epoch that was under way
  static constexpr const char* kAgreed = "agreed";  ///< as the ranks had agreed on them, where hooks changed them since
  static constexpr const char* kPlace = "place";    ///< where it was saved

  /// Loads the optimizers' states, with the groups that the checkpoint's optimizers have and the run's lack: they have them
  /// until kTrainStart is restored. Throws ConfigError when the optimizers do not fit.
  ParameterResume(TrainerState& run, const Checkpoint& checkpoint);

  /// Parameters as they were then; at kPlace also the optimizers' options and the modes of the module's parts. One that was not
  /// saved changes nothing, but for kTrainStart: parameters are then as the run has made them.
  void restore(TrainerState& run, const char* moment);

 private:
  using Groups = ParameterSet::Groups;
  /// Of one optimizer.
  struct Saved {
    Groups groups;                                         ///< in the checkpoint
    Groups own;                                            ///< as the run has made them
    std::vector<torch::optim::OptimizerParamGroup> known;  ///< of both, with options
    std::map<const at::TensorImpl*, std::unique_ptr<torch::optim::OptimizerParamState>> set_aside;  ///< in no group for now
  };
  void restore(torch::optim::Optimizer& optimizer, Saved& saved, const Groups& groups);

  Value state_;  ///< parameter_state() of the run that was saved; null when the checkpoint has none
  std::vector<Saved> optimizers_;
};

/// The gradients that a module's parameters hold, by name, on the CPU and not shared with the parameters.
std::map<std::string, at::Tensor> gradients_of(const Module& module);
/// Gives parameters these gradients, times `factor`, and all others none. Throws ConfigError when a name or shape is none of
/// the module's.
void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor);

}  // namespace levin
