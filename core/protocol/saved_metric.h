#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "levin/core/config/value.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// What a checkpoint's manifest has of a metric: which one it is, and what a rank has recorded of it. `of_last_batch`: its
/// step's value was logged in the batch that was last.
Value saved_metric(const MetricEntry& entry, bool of_last_batch);

/// The same, read.
struct SavedMetric {
  Hook hook = Hook::kNone;
  std::string name;
  std::int32_t dataloader_idx = -1;
  MetricOptions options;
  std::string site;
  Slot epoch;
  Slot step;
  bool step_is_new = false;
  bool step_is_unshared = false;
  bool of_last_batch = false;

  /// Unset for one with a hook or options that this build does not know. Throws ConfigError when it is not a saved metric.
  static std::optional<SavedMetric> read(const Value& value);
  /// Merges it into the entry of the same metric, which may have other ranks' values. `batch`: of its metric object, the batch
  /// that was logged last.
  void join(MetricEntry& entry, const MetricState& batch) const;
};

}  // namespace levin::detail
