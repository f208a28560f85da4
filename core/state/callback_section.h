#pragma once

#include "levin/core/state/section.h"

namespace levin {

/// The state of callbacks.
///
///     callbacks                                  their state_dict(), by state_key()
class CallbackSection final : public Section {
 public:
  std::string_view name() const override { return "callbacks"; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
};

/// The state of the data module.
///
///     datamodule                                 its state_dict()
class DataSection final : public Section {
 public:
  std::string_view name() const override { return "data module"; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
};

}  // namespace levin
