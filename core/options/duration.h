#pragma once

#include <string>

namespace levin::detail {

/// Seconds of a duration written as "DD:HH:MM:SS". Throws ConfigError, naming `option`, on anything else.
double parse_duration(const std::string& text, const std::string& option);

}  // namespace levin::detail
