#pragma once

#include <optional>
#include <string_view>

#include "levin/core/protocol/boundary.h"
#include "levin/core/protocol/metric_snapshot.h"
#include "levin/core/protocol/metric_table.h"

namespace levin::detail {

/// The maps that users read. Values are written when they become known, so reading is free and pure.
class MetricViews {
 public:
  /// A step's value, as this rank may show it.
  void show_step(MetricEntry& entry, double value);
  /// An epoch's value. The plain name of a forked key follows whichever was shown last.
  void show_epoch(MetricEntry& entry, double value);
  /// The value that monitors decide on: the same on all ranks.
  void decide_step(MetricEntry& entry, double value);
  void decide_epoch(MetricEntry& entry, double value);
  /// A value that belongs to no log(): shown to callbacks and monitored.
  void set(std::string_view name, double value);
  void clear();
  MetricMaps maps() const { return {callback_, logged_, progress_bar_, monitored_}; }
  /// Shows these values, and no others.
  void restore(MetricMaps maps);

  const MetricMap& callback() const { return callback_; }
  const MetricMap& logged() const { return logged_; }
  const MetricMap& progress_bar() const { return progress_bar_; }
  std::optional<double> monitored(std::string_view name) const;

 private:
  ViewCells& cells_of(MetricEntry& entry);

  MetricMap callback_;
  MetricMap logged_;
  MetricMap progress_bar_;
  MetricMap monitored_;
  std::uint64_t generation_ = 1;  ///< cells of an older generation point into maps that have been cleared
};

}  // namespace levin::detail
