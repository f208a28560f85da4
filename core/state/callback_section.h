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
///     datamodule_class, datamodule_preparations  for a Predictor
///     datamodule_hyper_parameters                the options that it was made with
class DataSection final : public Section {
 public:
  DataSection() : Section("data module") {}

  /// What the weights were trained on: without it they predict something else.
  bool is_with_weights() const override { return true; }
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
  void forget() override { kept_ = {}; }
  /// Keeps what is saved for checkpoints of later, when the data module may have gone.
  void keep(TrainerState& run) { kept_ = values(run); }

 private:
  static Value values(TrainerState& run);

  Value kept_;
};

}  // namespace levin
