#pragma once

#include "levin/core/state/section.h"

namespace levin {

/// The state of callbacks.
///
///     callbacks                                  their state_dict(), by state_key()
class CallbackSection final : public Section {
 public:
  CallbackSection() : Section("callbacks") {}

  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
};

/// The state of the data module.
///
///     datamodule                                 its state_dict()
class DataSection final : public Section {
 public:
  DataSection() : Section("data module") {}

  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
};

}  // namespace levin
