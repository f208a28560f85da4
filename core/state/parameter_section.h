#pragma once

#include <torch/optim/optimizer.h>

#include <map>
#include <memory>
#include <vector>

#include "levin/core/state/section.h"
#include "levin/core/step/trained_parameters.h"

namespace levin {

/// Optimizers with their states, which parameters are trained, and the optimizer and group of each.
///
/// Hooks may freeze, add and regroup parameters, and a resumed run repeats the hooks before the point where it was saved. So a
/// checkpoint has four moments: before on_train_start, before on_train_epoch_start, as ranks had agreed, and at that point.
///
///     optimizer_states.<i>.…                     tensors and values: of optimizer i, as PyTorch has them (optimizer_state.h)
///     trained_parameters: optimizers             names of parameters, by optimizer and group
///     trained_parameters: train_start, epoch_start, agreed, place
///                                                of each moment: `frozen`, names; `optimizers`, numbers of parameters by group
class ParameterSection final : public Section {
 public:
  ParameterSection() : Section("parameters and optimizers", {"optimizer_states", "optimizer_states.", "trained_parameters"}) {}

  /// Which parameters require a gradient.
  std::shared_ptr<void> hold(TrainerState& run) override;
  void begin(TrainerState& run, Place place) override;
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  /// Loads the optimizers' states, with groups that only the checkpoint has; optimizers hold these until kTrainStart is
  /// restored.
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  /// Restores the parameters of that moment; at kPlace also the optimizers' options. A moment that was not saved changes
  /// nothing, except kTrainStart: parameters are then as the run has made them.
  void restore(TrainerState& run, Moment moment) override;
  void forget() override;

  /// Hooks of training's start are next.
  void begin_training(TrainerState& run) { at_train_start_ = run_parameters(run); }
  /// on_train_epoch_start is next.
  void begin_epoch(TrainerState& run) { at_epoch_start_ = run_parameters(run); }
  /// Training has begun: set-up alone does not restore the state in a resumed run.
  bool has_begun() const { return at_train_start_ != nullptr; }

 private:
  using Groups = ParameterGroups;
  /// The part of an optimizer that hooks change: its groups, with their options. What steps change is not included.
  using OptimizerGroups = std::vector<torch::optim::OptimizerParamGroup>;
  struct Saved {
    Groups groups;          ///< in the checkpoint
    Groups own;             ///< as the run has made them
    OptimizerGroups known;  ///< of both, with options
    std::map<const at::TensorImpl*, std::unique_ptr<torch::optim::OptimizerParamState>> set_aside;  ///< in no group for now
  };
  static std::shared_ptr<const ParameterSet> run_parameters(TrainerState& run);
  static void restore(torch::optim::Optimizer& optimizer, Saved& saved, const Groups& groups);
  Value moments(TrainerState& run) const;
  void restore_groups(TrainerState& run, Moment moment, const Value* saved);

  std::shared_ptr<const ParameterSet> now_;
  std::shared_ptr<const ParameterSet> agreed_;  ///< what the strategy works with
  std::shared_ptr<const ParameterSet> at_train_start_;
  std::shared_ptr<const ParameterSet> at_epoch_start_;
  std::vector<OptimizerGroups> groups_;  ///< by optimizer, where hooks may change them; empty: as they are

  Value loaded_;  ///< trained_parameters; null when the checkpoint has none
  std::vector<Saved> optimizers_;
};

}  // namespace levin
