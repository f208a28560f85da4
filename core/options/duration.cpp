#include "levin/core/options/duration.h"

#include <optional>
#include <regex>

#include "levin/core/error.h"
#include "levin/core/options/quoted_text.h"

namespace levin::detail {

namespace {

constexpr const char* kPattern = R"(\s*(\d{1,6}):(\d\d):(\d\d):(\d\d)\s*)";
constexpr const char* kHowTo = "which is no duration. Write days, hours, minutes and seconds: DD:HH:MM:SS.";

std::optional<double> seconds_of(const std::string& text) {
  // No duration is longer, and std::regex recurses over its input.
  constexpr std::size_t kLongest = 60;
  static const std::regex pattern(kPattern);
  std::smatch part;
  if (text.size() > kLongest || !std::regex_match(text, part, pattern)) return std::nullopt;
  return std::stod(part[1]) * 86400 + std::stod(part[2]) * 3600 + std::stod(part[3]) * 60 + std::stod(part[4]);
}

}  // namespace

double parse_duration(const std::string& text, const std::string& option) {
  if (const auto seconds = seconds_of(text)) return *seconds;
  throw ConfigError(option + " is " + quoted_text(text) + ", " + kHowTo);
}

Value duration_schema() {
  Value schema = schema_of_type("string");
  schema["pattern"] = "^" + std::string(kPattern) + "$";
  return schema;
}

void check_duration(const Value& value) {
  if (value.is_null() || (value.is_string() && seconds_of(value.as_string()))) return;
  throw ConfigError(value.mark(), "got " + describe(value) + ", " + kHowTo);
}

}  // namespace levin::detail
