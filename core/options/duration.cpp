#include "levin/core/options/option_type.h"

#include <regex>

#include "levin/core/base/float_text.h"
#include "levin/core/base/format.h"

namespace levin {
namespace {

constexpr const char* kPattern = R"(\s*(\d{1,6}):(\d\d):(\d\d):(\d\d(\.\d{1,9})?)\s*)";
constexpr const char* kHowTo = "which is no duration. Write days, hours, minutes and seconds: DD:HH:MM:SS.";

}  // namespace

Duration parse_duration(std::string_view text) {
  // No duration is longer, and std::regex recurses over its input.
  constexpr std::size_t kLongest = 60;
  static const std::regex pattern(kPattern);
  std::cmatch part;
  if (text.size() > kLongest || !std::regex_match(text.data(), text.data() + text.size(), part, pattern)) {
    throw ConfigError(format("got {}, {}", describe(text), kHowTo));
  }
  const auto number = [&](std::size_t index) { return *parse_float(part[index].str()); };
  return Duration(number(1) * 86400 + number(2) * 3600 + number(3) * 60 + number(4));
}

Duration OptionType<Duration>::read(const Value& value) {
  if (!value.is_string()) throw ConfigError(value.mark(), format("got {}, {}", describe(value), kHowTo));
  try {
    return parse_duration(value.as_string());
  } catch (const ConfigError& error) {
    throw ConfigError(value.mark(), error.message());
  }
}

Value OptionType<Duration>::write(Duration duration) {
  const double seconds = duration.count();
  // Beyond these bounds it is no duration, and the text says so to whoever reads it.
  if (!(seconds >= 0 && seconds < 1e6 * 86400)) return float_text(seconds) + " seconds";
  const auto minutes = static_cast<std::int64_t>(seconds) / 60;
  std::string rest = format("{:012.9f}", seconds - static_cast<double>(minutes * 60));
  rest.resize(rest.find_last_not_of('0') + 1);
  if (rest.back() == '.') rest = format("{:0<2}", rest.substr(0, 2));
  return format("{:02}:{:02}:{:02}:{}", minutes / 1440, minutes / 60 % 24, minutes % 60, rest);
}

Value OptionType<Duration>::schema() {
  Value schema = detail::schema_of_type("string");
  schema["pattern"] = format("^{}$", kPattern);
  return schema;
}

}  // namespace levin
