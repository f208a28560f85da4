#pragma once

#include <torch/optim/optimizer.h>

#include "levin/core/state/trainer_state.h"

namespace levin {

/// Which parameters are trained and which group of an optimizer has them, for a checkpoint: as they are, where the run that
/// resumes goes on, and before the hooks that it runs again until then, which may freeze and add once more. And which parts of
/// the module are in evaluation mode while the rest trains.
Value parameter_state(TrainerState& run);

/// Gives a run that resumes its trained parameters back, one moment after the other, as parameter_state() has kept them.
class ParameterResume {
 public:
  /// Moments of the run that was saved.
  static constexpr const char* kTrainStart = "train_start";  ///< before on_train_start
  static constexpr const char* kEpochStart = "epoch_start";  ///< before on_train_epoch_start of the epoch that was under way
  static constexpr const char* kAgreed = "agreed";  ///< as the ranks had agreed on them, where hooks changed them since
  static constexpr const char* kPlace = "place";    ///< where it was saved

  /// Loads the optimizers' states, with groups that only the checkpoint's have; they keep these until kTrainStart is restored.
  /// Throws ConfigError when the optimizers do not fit.
  ParameterResume(TrainerState& run, const Checkpoint& checkpoint);

  /// Parameters as they were then; at kPlace also the optimizers' options and the module's modes. A moment that was not saved
  /// changes nothing, but for kTrainStart: parameters are then as the run has made them.
  void restore(TrainerState& run, const char* moment);

 private:
  using Groups = ParameterGroups;
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
/// Parameters get these gradients, times `factor`, all others none. Throws ConfigError for a name or shape not of the module's.
void set_gradients(Module& module, const std::map<std::string, at::Tensor>& gradients, double factor);

}  // namespace levin
