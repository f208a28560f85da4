#pragma once

#include "levin/core/state/section.h"

namespace levin {

/// Weights and buffers of the module, and what they were made with.
///
///     state_dict.<name>                          tensors: weights and buffers; those to evaluate, where there are averages
///     current_model_state.<name>                 tensors: those that are trained, where state_dict has averages
///     module_class, hyper_parameters, datamodule_hyper_parameters
class WeightSection final : public Section {
 public:
  std::string_view name() const override { return "weights"; }
  bool is_with_weights() const override { return true; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
};

}  // namespace levin
