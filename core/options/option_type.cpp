#include "levin/core/options/option_type.h"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <regex>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/options/option_check.h"
#include "levin/core/options/options.h"

namespace levin {

void ErrorCollector::run(const std::function<void()>& step) {
  if (errors_.size() >= kMostConfigErrors) return;
  try {
    step();
  } catch (const ConfigError& error) {
    add(error);
  }
}

void ErrorCollector::add(const ConfigError& error) {
  for (ConfigError& single : single_errors(error)) {
    if (errors_.size() < kMostConfigErrors) errors_.push_back(std::move(single));
  }
}

void ErrorCollector::throw_if_any() const {
  if (errors_.size() == 1) throw errors_.front();
  if (!errors_.empty()) throw ConfigErrors(errors_);
}

namespace {

constexpr const char* kDurationPattern = R"(\s*(\d{1,6}):(\d\d):(\d\d):(\d\d(\.\d{1,9})?)\s*)";

// What YAML's tolerance takes away, the message gives back: how the value must be written to be accepted.
std::string fix_hint(const Value& value, const std::string& expected) {
  const bool wants_int = expected.rfind("int", 0) == 0;
  const bool wants_text = expected.rfind("string", 0) == 0 || expected.rfind("path", 0) == 0;
  if (wants_int && value.is_double() && std::abs(value.as_double()) < 1e15 &&
      std::trunc(value.as_double()) == value.as_double())
    return format("; write {}", static_cast<std::int64_t>(value.as_double()));
  if (expected == "bool" && value.is_string()) return "; write true or false";
  if (wants_text && (value.is_double() || value.is_bool())) return "; put it in quotes";
  if (expected.rfind("list", 0) == 0 && !value.is_map()) return "; write it in brackets: [a, b]";
  return {};
}

}  // namespace

namespace detail {

Value schema_of_type(const char* name) { return Value(Value::Map{{"type", name}}); }

Value any_of(Value::List alternatives) { return Value(Value::Map{{"anyOf", Value(std::move(alternatives))}}); }

void throw_wrong_type(const Value& value, const std::string& expected) {
  throw ConfigError(value.mark(), format("expected {}, got {}{}", expected, describe(value), fix_hint(value, expected)));
}

}  // namespace detail

bool OptionType<bool>::read(const Value& value) {
  if (!value.is_bool()) detail::throw_wrong_type(value, name());
  return value.as_bool();
}

std::int64_t OptionType<std::int64_t>::read(const Value& value) {
  if (!value.is_int()) detail::throw_wrong_type(value, name());
  return value.as_int();
}

int OptionType<int>::read(const Value& value) {
  const std::int64_t wide = OptionType<std::int64_t>::read(value);
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
    throw ConfigError(value.mark(), format("{} does not fit into 32 bits", wide));
  return static_cast<int>(wide);
}

double OptionType<double>::read(const Value& value) {
  if (!value.is_number()) detail::throw_wrong_type(value, name());
  return value.as_double();
}

std::string OptionType<std::string>::read(const Value& value) {
  if (value.is_int()) return std::to_string(value.as_int());
  if (!value.is_string()) detail::throw_wrong_type(value, name());
  return value.as_string();
}

std::filesystem::path OptionType<std::filesystem::path>::read(const Value& value) {
  if (!value.is_string() && !value.is_int()) detail::throw_wrong_type(value, name());
  const std::string text = OptionType<std::string>::read(value);
  const char* home = std::getenv("HOME");
  if (home == nullptr || (text != "~" && text.rfind("~/", 0) != 0)) return text;
  return std::filesystem::path(home) / text.substr(text.size() == 1 ? 1 : 2);
}

Duration OptionType<Duration>::read(const Value& value) {
  // No duration is longer, and std::regex recurses over its input.
  constexpr std::size_t kLongest = 60;
  static const std::regex pattern(kDurationPattern);
  const std::string text = value.is_string() ? value.as_string() : "";
  std::smatch part;
  if (text.size() > kLongest || !std::regex_match(text, part, pattern)) {
    throw ConfigError(value.mark(), format("got {}, which is no duration. Write days, hours, minutes and seconds: DD:HH:MM:SS.",
                                           describe(value)));
  }
  const auto number = [&](std::size_t index) { return *parse_float(part[index].str()); };
  return Duration(number(1) * 86400 + number(2) * 3600 + number(3) * 60 + number(4));
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
  schema["pattern"] = format("^{}$", kDurationPattern);
  return schema;
}

}  // namespace levin
