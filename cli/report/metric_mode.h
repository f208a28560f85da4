#pragma once

#include <optional>
#include <string_view>

#include "levin/core/options/value.h"

namespace levin::cli {

/// Whether the larger value of a metric is the better one: as a callback of the run's configuration that monitors it says, else
/// as its name says; nothing where neither does. `config`: of config.yaml.
std::optional<bool> larger_is_better(const Value& config, std::string_view metric);

}  // namespace levin::cli
