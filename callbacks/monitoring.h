#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/fwd.h"
#include "levin/core/metric_row.h"
#include "levin/core/options/value.h"

namespace levin {

namespace detail {

/// Lightning's state key of a callback of which several may run: "EarlyStopping{'monitor': 'val_loss', 'mode': 'min'}".
std::string state_key_of(std::string_view class_name, const std::vector<std::pair<std::string, Value>>& arguments);

/// "'a', 'b'", or "none" when there are no metrics: what a message about a missing key offers instead.
std::string metric_names(const MetricMap& metrics);

/// True when each training epoch ends with exactly one validation: what is monitored is then looked at when the epoch ends.
bool validates_once_each_epoch(const TrainerOptions& options);

}  // namespace detail
}  // namespace levin
