#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "levin/core/protocol/boundary.h"
#include "levin/core/protocol/metric_store.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// The maps that users read. Values are written when they become known, so reading is pure, and free but for values that are
/// still on a device: it waits for those.
class MetricViews {
 public:
  /// A step's value, as this rank may show it. `deferred` takes the place of `value` when somebody reads it.
  void show_step(MetricEntry& entry, double value, const std::shared_ptr<DeferredValue>& deferred = nullptr);
  /// An epoch's value. The plain name of a forked key follows whichever was shown last.
  void show_epoch(MetricEntry& entry, double value);
  /// The value that monitors decide on: the same on all ranks.
  void decide_step(MetricEntry& entry, double value);
  void decide_epoch(MetricEntry& entry, double value);
  /// A value that belongs to no log(): shown to callbacks and monitored.
  void set(std::string_view name, double value);
  void clear();
  MetricMaps maps() { return {callback(), logged_, progress_bar_, monitored_}; }
  /// Shows these values, and no others.
  void restore(MetricMaps maps);

  const MetricMap& callback() { return read_waiting(), callback_; }
  const MetricMap& logged() { return read_waiting(), logged_; }
  const MetricMap& progress_bar() { return read_waiting(), progress_bar_; }
  std::optional<double> monitored(std::string_view name) const;

 private:
  using Deferred = std::shared_ptr<DeferredValue>;

  ViewCells& cells_of(MetricEntry& entry);
  void put(MetricMap& map, double*& cell, const std::string& name, double value, const Deferred& deferred = nullptr);
  void read_waiting();

  MetricMap callback_;
  MetricMap logged_;
  MetricMap progress_bar_;
  MetricMap monitored_;
  std::unordered_map<double*, Deferred> waiting_;  ///< cells whose newest value is still on a device
  std::uint64_t generation_ = 1;                   ///< cells of an older generation point into maps that have been cleared
};

}  // namespace levin::detail
