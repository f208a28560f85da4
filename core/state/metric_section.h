#pragma once

#include <optional>
#include <vector>

#include "levin/core/protocol/metric_store.h"
#include "levin/core/state/section.h"

namespace levin {

/// What this rank has logged of training, and what users see of it.
///
///     metrics.R.step.<n>           tensors: the metric object of the nth metric, of the batch that was logged last on rank R
///     metrics.R.epoch.<object>     the same of the epoch: numbers, then the count of updates; rows in ….0, ….1
///     metrics.0.all.<object>       what compute() sees of all ranks
///     ranks: R: metrics            the rest of MetricSnapshot
class MetricSection final : public Section {
 public:
  std::string_view name() const override { return "metrics"; }
  std::shared_ptr<void> hold(TrainerState& run) override;
  void begin(TrainerState& run, Place place) override;
  void save_own(TrainerState& run, RankState& state) override;
  std::span<const std::string_view> keys() const override;
  void load_own(TrainerState& run, const Checkpoint& checkpoint, int rank, const Value& values) override;
  /// A rank that the saved run did not have shows what all ranks had alike.
  void load(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) override;
  void restore(TrainerState& run, Moment moment) override;
  void forget() override { loaded_.clear(); }

 private:
  std::optional<MetricMaps> maps_;         ///< where a validation changes them; else as they are
  std::optional<MetricSnapshot> metrics_;  ///< where hooks of training's or an epoch's start or end follow; else as they are
  std::vector<MetricSnapshot> loaded_;     ///< of this rank, or of several whose state it takes over
};

/// What metric objects have taken in, and what compute() sees of all ranks. Of a checkpoint they are part of MetricSection.
class MetricObjectSection final : public Section {
 public:
  std::string_view name() const override { return "metric objects"; }
  std::shared_ptr<void> hold(TrainerState& run) override;
};

}  // namespace levin
