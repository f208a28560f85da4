#pragma once

#include <optional>
#include <vector>

#include "levin/core/protocol/metric_store.h"
#include "levin/core/state/section.h"

namespace levin {

/// What this rank has logged in training, and what users see of it.
///
///     metrics.R.step.<n>           tensors: the metric object of the nth metric, for the last logged batch of rank R
///     metrics.R.epoch.<object>     the same for the epoch: numbers, then the count of updates; rows in ….0, ….1
///     metrics.0.all.<object>       what compute() sees of all ranks
///     ranks: R: metrics            the rest of MetricSnapshot
class MetricSection final : public Section {
 public:
  MetricSection() : Section("metrics", {"metrics."}) {}

  std::shared_ptr<void> hold(TrainerState& run) override;
  void begin(TrainerState& run, Place place) override;
  void save_own(TrainerState& run, RankState& state) override;
  void load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) override;
  /// A rank that the saved run did not have shows the values that all ranks shared.
  void load(TrainerState& run, const Checkpoint& checkpoint) override;
  void restore(TrainerState& run, Moment moment) override;
  void forget() override { loaded_.clear(); }

 private:
  std::optional<MetricMaps> maps_;         ///< set while a validation may change them
  std::optional<MetricSnapshot> metrics_;  ///< set before hooks of a start or end
  std::vector<MetricSnapshot> loaded_;     ///< of this rank, or of each whose state it takes over
};

/// The state of metric objects, and what compute() sees of all ranks. MetricSection saves it in checkpoints.
class MetricObjectSection final : public Section {
 public:
  MetricObjectSection() : Section("metric objects") {}

  std::shared_ptr<void> hold(TrainerState& run) override;
};

}  // namespace levin
