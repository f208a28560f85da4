#pragma once

#include <memory>

#include "levin/core/state/section.h"
#include "levin/core/step/trained_parameters.h"

namespace levin {

/// The mode, training or evaluation, of the module and of each module below it.
///
///     trained_parameters: in_evaluation          names of modules in evaluation mode while the rest trains
class ModeSection final : public Section {
 public:
  ModeSection() : Section("modes", {"trained_parameters"}) {}

  std::shared_ptr<void> hold(TrainerState& run) override;
  void begin(TrainerState& run, Place place) override;
  void save(TrainerState& run, Checkpoint& checkpoint) override;
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  void restore(TrainerState& run, Moment moment) override;
  void forget() override { loaded_ = {}; }

 private:
  std::shared_ptr<const ModuleModes> modes_;
  Value loaded_;
};

}  // namespace levin
