#pragma once

#include <optional>

#include "levin/core/state/section.h"

namespace levin {

/// Learning-rate schedulers.
///
///     lr_schedulers                              their states, as PyTorch has them
class SchedulerSection final : public Section {
 public:
  std::string_view name() const override { return "schedulers"; }
  void begin(TrainerState& run, Place place) override;
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  std::span<const std::string_view> keys() const override;
  void load(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;

 private:
  std::optional<Value> states_;  ///< set while hooks may change them
};

/// The scale of the loss under 16-mixed.
///
///     gradient_scaler                            absent without one
class ScalerSection final : public Section {
 public:
  std::string_view name() const override { return "scale of the loss"; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  std::span<const std::string_view> keys() const override;
  void load(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
};

}  // namespace levin
