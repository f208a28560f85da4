#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "levin/core/export.h"
#include "levin/core/options/option_type.h"

namespace levin {

/// A span of time: any of std::chrono's becomes one (`12h`, `std::chrono::minutes(5)`). In YAML "DD:HH:MM:SS", days to seconds.
using Duration = std::chrono::duration<double>;

/// The duration that `text` writes as "DD:HH:MM:SS"; seconds may have decimals. Throws ConfigError on anything else.
LEVIN_API Duration parse_duration(std::string_view text);

template <>
struct LEVIN_API OptionType<Duration> {
  static Duration read(const Value& value);
  /// "00:12:00:00", or "00:00:00:00.5"
  static Value write(Duration duration);
  static std::string name() { return "DD:HH:MM:SS"; }
  static Value schema();
};

}  // namespace levin
