#include "levin/core/config/trainer_values.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

namespace {

constexpr const char* kExpected = "devices is auto, a count of at least 1, -1 for all, or indices such as \"0,3\"";

int parse_index(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw ConfigError(format("{}, not '{}'", kExpected, text));
  }
  return number;
}

Devices from_count(int count) {
  if (count == 0 || count < -1) throw ConfigError(format("{}, not {}", kExpected, count));
  return Devices(count);
}

Devices from_indices(std::vector<int> indices) {
  std::vector<int> sorted = indices;
  std::sort(sorted.begin(), sorted.end());
  if (sorted.empty() || sorted.front() < 0 || std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    throw ConfigError(format("{}; indices must be distinct and not negative", kExpected));
  }
  return Devices(std::move(indices));
}

}  // namespace

Devices Devices::parse(const std::string& text) {
  if (text == "auto") return {};
  if (text.find(',') == std::string::npos) return from_count(parse_index(text));
  std::vector<int> indices;
  for (const std::string& part : split(text, ",")) {
    if (!part.empty()) indices.push_back(parse_index(part));  // "0," is device 0, as in Lightning
  }
  return from_indices(std::move(indices));
}

std::string Devices::str() const {
  if (count_) return std::to_string(*count_);
  if (indices_.empty()) return "auto";
  return join(indices_, ",", [](int index) { return std::to_string(index); }) + (indices_.size() == 1 ? "," : "");
}

Devices OptionType<Devices>::read(const Value& value) {
  try {
    if (value.is_string()) return Devices::parse(value.as_string());
    if (value.is_int()) return from_count(OptionType<int>::read(value));
    if (value.is_list()) return from_indices(OptionType<std::vector<int>>::read(value));
  } catch (const ConfigError& error) {
    throw ConfigError(value.mark(), error.message());
  }
  detail::throw_wrong_type(value, name());
}

Value OptionType<Devices>::write(const Devices& devices) {
  if (devices.is_all()) return -1;
  if (devices.is_auto() || !devices.indices().empty()) return devices.str();
  return devices.count();
}

Value OptionType<Devices>::schema() {
  // A word, a count, or indices with at least one comma.
  constexpr const char* kPattern =
      "^(auto|-1|0*[1-9][0-9]{0,9}|,+[0-9]{1,10}(,+[0-9]{1,10})*,*|[0-9]{1,10}(,+[0-9]{1,10})*,+|"
      "[0-9]{1,10}(,+[0-9]{1,10})+)$";
  const Value index(Value::Map{{"type", "integer"}, {"minimum", 0}});
  return detail::any_of({Value(Value::Map{{"const", -1}}),
                         Value(Value::Map{{"type", "integer"}, {"minimum", 1}, {"maximum", std::numeric_limits<int>::max()}}),
                         Value(Value::Map{{"type", "string"}, {"pattern", kPattern}}),
                         Value(Value::Map{{"type", "array"}, {"items", index}, {"minItems", 1}, {"uniqueItems", true}})});
}

std::int64_t Limit::of(std::int64_t total, const std::string& option_name) const {
  if (!is_share()) return std::min(batches(), total);
  const auto part = static_cast<std::int64_t>(std::floor(static_cast<double>(total) * share()));
  if (part == 0 && share() > 0.0 && total > 0) {
    throw ConfigError(format("trainer.{}: {} of {} batches is less than one batch. Take at least {}, or 0 to use none.",
                             option_name, share(), total, 1.0 / static_cast<double>(total)));
  }
  return part;
}

Limit OptionType<Limit>::read(const Value& value) {
  if (value.is_int()) {
    if (value.as_int() < 0)
      throw ConfigError(value.mark(), format("a number is 0 or more, not {}; 1.0 takes all batches", value.as_int()));
    return Limit(value.as_int());
  }
  if (!value.is_double()) detail::throw_wrong_type(value, name());
  const double share = value.as_double();
  if (!(share >= 0.0 && share <= 1.0)) {
    throw ConfigError(
        value.mark(),
        format("a share is between 0.0 and 1.0, not {}; a number, such as 2 batches, is written without a decimal point",
               share));
  }
  return Limit(share);
}

// JSON has one kind of number, so that 2.0, a share that is refused, passes for 2 here.
Value OptionType<Limit>::schema() {
  Value either = detail::any_of({detail::schema_of_type("integer"), Value(Value::Map{{"maximum", 1}})});
  either["type"] = "number";
  either["minimum"] = 0;
  return either;
}

Value OptionType<Limit>::write(const Limit& limit) {
  if (limit.is_share()) return limit.share();
  return limit.batches();
}

CheckInterval OptionType<CheckInterval>::read(const Value& value) {
  return value.is_string() || value.is_map() ? CheckInterval(OptionType<Duration>::read(value))
                                             : CheckInterval(OptionType<Limit>::read(value));
}

Value OptionType<CheckInterval>::write(const CheckInterval& interval) {
  return interval.is_time() ? OptionType<Duration>::write(interval.time()) : OptionType<Limit>::write(interval.limit());
}

Value OptionType<CheckInterval>::schema() {
  return detail::any_of({OptionType<Limit>::schema(), OptionType<Duration>::schema()});
}

Deterministic OptionType<Deterministic>::read(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_string() && value.as_string() == "warn") return Deterministic::kWarn;
  detail::throw_wrong_type(value, name());
}

Value OptionType<Deterministic>::write(const Deterministic& deterministic) {
  return deterministic.only_warns() ? Value("warn") : Value(static_cast<bool>(deterministic));
}

Value OptionType<Deterministic>::schema() {
  return detail::any_of({detail::schema_of_type("boolean"), Value(Value::Map{{"const", "warn"}})});
}

FastDevRun OptionType<FastDevRun>::read(const Value& value) {
  if (value.is_bool()) return FastDevRun(value.as_bool());
  if (!value.is_int()) detail::throw_wrong_type(value, name());
  return FastDevRun(value.as_int());
}

Value OptionType<FastDevRun>::write(const FastDevRun& run) {
  const bool is_number = run.batches() < 0 || run.batches() > 1;
  return is_number ? Value(run.batches()) : Value(static_cast<bool>(run));
}

Value OptionType<FastDevRun>::schema() {
  return detail::any_of({detail::schema_of_type("boolean"), detail::schema_of_type("integer")});
}

}  // namespace levin
