#pragma once

#include <optional>
#include <string>
#include <vector>

#include "levin/cli/runs/run_record.h"
#include "levin/core/config/value.h"

namespace levin::cli {

/// Whether the larger value of a metric is the better one, as the first callback says that monitors it in a run's complete
/// configuration; nothing where none does.
std::optional<bool> monitored_as_larger(const Value& config, const std::string& metric);

/// The same, else as the metric's name says it ("val_acc", "loss"); nothing where neither does.
std::optional<bool> is_larger_better_in(const Value& config, const std::string& metric);

/// The same of several runs' callbacks, else of the metric's name ("val_acc", "loss"); nothing where neither says it. Throws
/// ConfigError, which names --mode, where the runs contradict one another.
std::optional<bool> is_larger_better_in(const std::vector<RunRecord>& runs, const std::string& metric);

/// The error for an unknown direction.
[[noreturn]] void ask_for_mode(const std::string& metric);

}  // namespace levin::cli
