#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/state/section.h"

namespace levin {

/// Batches and samples of evaluations.
///
///     ranks: R: evaluation_steps     batches of validations so far, by loader
class EvaluationSection final : public Section {
 public:
  EvaluationSection() : Section("counters of evaluations") {}

  std::shared_ptr<void> hold(TrainerState& run) override;
  void begin(TrainerState& run, Place place) override;
  void save_own(TrainerState& run, RankState& state) override;
  void load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) override;
  void restore(TrainerState& run, Moment moment) override;
  void forget() override { loaded_.clear(); }

 private:
  std::vector<std::int64_t> steps_;
  std::vector<std::int64_t> loaded_;  ///< of the first rank that is taken over
};

}  // namespace levin
