#pragma once

#include "levin/core/state/section.h"

namespace levin {

/// Weights and buffers of the module, and the options that it was made with.
///
///     state_dict.<name>                          tensors: weights and buffers; the averages to evaluate, if there are some
///     current_model_state.<name>                 tensors: the trained weights, if state_dict has averages
///     module_class, hyper_parameters
///     precision, channels_last                   of the forward passes
class WeightSection final : public Section {
 public:
  WeightSection() : Section("weights") {}

  bool is_with_weights() const override { return true; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
};

}  // namespace levin
