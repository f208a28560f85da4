#pragma once

#include <cstdint>
#include <string>

#include "levin/core/protocol/metrics.h"

namespace levin {

/// The name of a file, without extension, that a pattern stands for: "{epoch}-{step}-{val_loss:.2f}". A field is a metric's
/// name and, after a colon, how to write it (Python's format language: "03d", ".2f", ".3g"). "{{" and "}}" stand for braces.
///
/// auto_insert_metric_name: a field also writes its name, "val_loss=0.12". A missing metric counts as 0, as in
/// Lightning. `epoch` and `step` can be overridden by metrics of these names. Throws ConfigError when a brace has no partner or
/// a format is not understood, whatever the metrics are.
std::string checkpoint_name(const std::string& pattern, bool auto_insert_metric_name, std::int64_t epoch, std::int64_t step,
                            const MetricMap& metrics);

}  // namespace levin
