#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/options/option_type.h"
#include "levin/core/options/value.h"
#include "levin/core/protocol/metric_row.h"

namespace levin {

namespace detail {

/// Lightning's state key of a callback of which several may run: "EarlyStopping{'monitor': 'val_loss', 'mode': 'min'}".
std::string state_key_of(std::string_view class_name, const std::vector<std::pair<std::string, Value>>& arguments);

/// What a message about a missing key offers instead: " Did you mean 'a'? Log it, or set 'monitor' to one of: 'a', 'b'."
std::string other_monitors(const std::string& monitor, const MetricMap& metrics);

/// Warns on rank 0 of a mode that contradicts the metric's name. Called: when a fit begins.
void warn_of_mode(const std::string& who, const std::string& monitor, MonitorMode mode);
/// Warns on rank 0 of a metric that validation does not seem to log. Called: at the end of the sanity check's validation.
void warn_of_monitor(const Trainer& trainer, const std::string& who, const std::string& monitor);

/// True when each training epoch ends with exactly one validation: what is monitored is then looked at when the epoch ends.
bool validates_once_each_epoch(const TrainerOptions& options);

}  // namespace detail
}  // namespace levin
