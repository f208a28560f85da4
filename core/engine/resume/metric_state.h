#pragma once

#include "levin/core/options/value.h"
#include "levin/core/protocol/metric_store.h"

namespace levin {

/// A snapshot as plain values, for a checkpoint's manifest.
Value to_value(const MetricSnapshot& snapshot);
/// Metrics of a hook or with options that this build does not know are left out. Throws ConfigError when the values are no
/// snapshot.
MetricSnapshot metric_snapshot(const Value& value);

}  // namespace levin
