#include "levin/core/options/duration.h"

#include <regex>

#include "levin/core/error.h"
#include "levin/core/options/quoted_text.h"

namespace levin::detail {

double parse_duration(const std::string& text, const std::string& option) {
  // No duration is longer, and std::regex recurses over its input.
  constexpr std::size_t kLongest = 60;
  static const std::regex pattern(R"(\s*(\d{1,6}):(\d\d):(\d\d):(\d\d)\s*)");
  std::smatch part;
  if (text.size() > kLongest || !std::regex_match(text, part, pattern)) {
    throw ConfigError(option + " is " + quoted_text(text) +
                      ", which is no duration. Write days, hours, minutes and seconds: DD:HH:MM:SS.");
  }
  return std::stod(part[1]) * 86400 + std::stod(part[2]) * 3600 + std::stod(part[3]) * 60 + std::stod(part[4]);
}

}  // namespace levin::detail
