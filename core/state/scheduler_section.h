#pragma once

#include <optional>

#include "levin/core/state/section.h"

namespace levin {

/// Learning-rate schedulers.
///
///     lr_schedulers                              their states, as PyTorch has them
class SchedulerSection final : public Section {
 public:
  SchedulerSection() : Section("schedulers", {"lr_schedulers"}) {}

  void begin(TrainerState& run, Place place) override;
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load(TrainerState& run, const Checkpoint& checkpoint) override;

 private:
  std::optional<Value> states_;  ///< set while hooks may change them
};

/// The scale of the loss under 16-mixed.
///
///     gradient_scaler                            absent without one
class ScalerSection final : public Section {
 public:
  ScalerSection() : Section("scale of the loss", {"gradient_scaler"}) {}

  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
};

}  // namespace levin
