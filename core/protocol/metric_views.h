#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "levin/core/protocol/metric_table.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// What users, monitors and bars see of the metrics.
struct MetricMaps {
  MetricMap callback;
  MetricMap logged;
  MetricMap progress_bar;
  MetricMap monitored;
};

namespace detail {

/// The maps that users read. Values are written when they become known: reading is pure, but waits for those on a device.
class MetricViews {
 public:
  /// A value of a step or an epoch, as this rank may show it; the plain name of a forked key follows whichever was shown last.
  /// `deferred` takes the place of `value` when somebody reads it.
  void show(MetricEntry& entry, Level level, double value, const std::shared_ptr<DeferredValue>& deferred = nullptr);
  /// The value that monitors decide on: the same on all ranks.
  void decide(MetricEntry& entry, Level level, double value);
  /// A value that belongs to no log(): shown to callbacks and monitored.
  void set(const std::string& name, double value);
  /// Shows these values, and no others.
  void restore(MetricMaps maps);

  const MetricMaps& maps();
  std::optional<double> monitored(std::string_view name) const;

 private:
  using Deferred = std::shared_ptr<DeferredValue>;

  /// `map`: of MetricMaps, by its number.
  void put(MetricEntry& entry, std::size_t map, Level name, double value, const Deferred& deferred = nullptr);

  MetricMaps maps_;
  std::uint64_t generation_ = 1;                   ///< cells of an older one point into maps that have been cleared
  std::unordered_map<double*, Deferred> waiting_;  ///< values in the maps that are still on a device
};

}  // namespace detail

}  // namespace levin
