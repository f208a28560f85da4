#include "levin/core/config/option_type.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <optional>
#include <regex>
#include <system_error>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/base/wildcards.h"
#include "levin/core/config/option_check.h"
#include "levin/core/config/options.h"
#include "levin/core/files/file_meant.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"

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

// DD:HH:MM:SS, or as Python writes a timedelta: "1 day, 2:30:00".
constexpr const char* kDurationPattern =
    R"(\s*(?:(?:(\d{1,6}):(\d\d))|(?:(?:(\d{1,6}) days?, )?(\d|1\d|2[0-3]))):(\d\d):(\d\d(?:\.\d{1,9})?)\s*)";

/// Parts of a duration that is a map: datetime.timedelta's, in seconds.
constexpr std::pair<const char*, double> kDurationParts[] = {{"weeks", 7 * 86400.0}, {"days", 86400.0}, {"hours", 3600.0},
                                                             {"minutes", 60.0},      {"seconds", 1.0},  {"milliseconds", 1e-3},
                                                             {"microseconds", 1e-6}};

Duration duration_of(const Value& map) {
  std::vector<std::string> names;
  double seconds = 0;
  for (const auto& [name, size] : kDurationParts) {
    names.emplace_back(name);
    if (const Value* part = map.find(name)) seconds += size * OptionType<double>::read(*part);
  }
  for (const auto& [key, part] : map.as_map()) {
    if (std::ranges::find(names, key) == names.end())
      throw ConfigError(part.key_mark(), format("unknown key {}{}", quoted_text(key), did_you_mean(key, names, "keys")));
  }
  if (!(seconds >= 0)) throw ConfigError(map.mark(), "a duration is not negative");
  return Duration(seconds);
}

// Since YAML is tolerant, the message says how the value must be written to be accepted.
std::string fix_hint(const Value& value, const std::string& expected) {
  const bool wants_int = expected.rfind("int", 0) == 0;
  const bool wants_text = expected.rfind("string", 0) == 0 || expected.rfind("path", 0) == 0;
  if (wants_int && value.is_double() && std::abs(value.as_double()) < 1e15 &&
      std::trunc(value.as_double()) == value.as_double())
    return format("; write {}", static_cast<std::int64_t>(value.as_double()));
  if (expected == "bool" && value.is_string()) return "; write true or false";
  if (wants_text && value.is_bool()) return "; put it in quotes";
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
  if (value.is_number() && !value.written().empty()) return std::string(value.written());
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_double()) return float_text(value.as_double());
  if (!value.is_string()) detail::throw_wrong_type(value, name());
  return value.as_string();
}

std::filesystem::path OptionType<std::filesystem::path>::read(const Value& value) {
  if (!value.is_string() && !value.is_number()) detail::throw_wrong_type(value, name());
  return expand_home(OptionType<std::string>::read(value));
}

Duration OptionType<Duration>::read(const Value& value) {
  if (value.is_map()) return duration_of(value);
  // No duration is longer, and std::regex recurses over its input.
  constexpr std::size_t kLongest = 60;
  static const std::regex pattern(kDurationPattern);
  const std::string text = value.is_string() ? value.as_string() : "";
  std::smatch part;
  if (text.size() > kLongest || !std::regex_match(text, part, pattern)) {
    throw ConfigError(
        value.mark(),
        format("got {}, which is not a duration. Write days, hours, minutes and seconds: DD:HH:MM:SS.", describe(value)));
  }
  const auto number = [&](std::size_t index) { return part[index].matched ? *parse_float(part[index].str()) : 0.0; };
  return Duration((number(1) + number(3)) * 86400 + (number(2) + number(4)) * 3600 + number(5) * 60 + number(6));
}

Value OptionType<Duration>::write(Duration duration) {
  const double seconds = duration.count();
  // Beyond these bounds it is not a duration, and the text makes that visible.
  if (!(seconds >= 0 && seconds < 1e6 * 86400)) return float_text(seconds) + " seconds";
  const auto minutes = static_cast<std::int64_t>(seconds) / 60;
  std::string rest = format("{:012.9f}", seconds - static_cast<double>(minutes * 60));
  rest.resize(rest.find_last_not_of('0') + 1);
  if (rest.back() == '.') rest = format("{:0<2}", rest.substr(0, 2));
  return format("{:02}:{:02}:{:02}:{}", minutes / 1440, minutes / 60 % 24, minutes % 60, rest);
}

Value OptionType<Duration>::schema() {
  Value text = detail::schema_of_type("string");
  text["pattern"] = format("^{}$", kDurationPattern);
  Value parts = detail::schema_of_type("object");
  for (const auto& [name, size] : kDurationParts) parts["properties"][name] = detail::schema_of_type("number");
  parts["additionalProperties"] = false;
  return detail::any_of({std::move(text), std::move(parts)});
}

}  // namespace levin

namespace levin::detail {

namespace fs = std::filesystem;

namespace {

bool is_unset(const OptionInfo& info, const Value& value) { return value.is_null() && !info.null_is_value; }

void check_range(const OptionInfo& info, const Value& value) {
  const double number = value.as_double();
  // Written so that NaN is outside of every range.
  const bool in_range = (!info.minimum || number >= *info.minimum) && (!info.above || number > *info.above) &&
                        (!info.maximum || number <= *info.maximum) && (!info.below || number < *info.below);
  if (in_range) return;
  throw ConfigError(value.mark(), format("must be {}, got {}{}", join(bounds(info), " and "), describe(value),
                                         info.instead.empty() ? "" : format("; {}", info.instead)));
}

void check_not_empty(const Value& value) {
  const bool empty = value.is_string() ? value.as_string().empty() : (value.is_list() || value.is_map()) && value.size() == 0;
  if (empty) throw ConfigError(value.mark(), format("is an empty {}", value.type_name()));
}

void check_choice(const OptionInfo& info, const Value& value) {
  const std::string text = OptionType<std::string>::read(value);
  if (std::find(info.choices.begin(), info.choices.end(), text) == info.choices.end()) throw_wrong_choice(value, info.choices);
}

// A list is checked element by element.
void check_value(const OptionInfo& info, const Value& value) {
  check_text(value);
  if (info.not_empty) check_not_empty(value);
  if (value == info.default_value) return;
  if (value.is_list()) {
    for (const Value& element : value.as_list()) check_value(info, element);
  }
  if (value.is_number()) check_range(info, value);
  if ((value.is_string() || value.is_number()) && !info.choices.empty()) check_choice(info, value);
}

/// "FOLDER:best" and "FOLDER:last", as ckpt_path and checkpoint_at() take them, of a folder that is there.
bool names_checkpoint_of_run(const fs::path& place) {
  const std::string& text = place.native();
  std::error_code ignored;
  return (text.ends_with(":best") || text.ends_with(":last")) && fs::is_directory(text.substr(0, text.rfind(':')), ignored);
}

/// The absolute path of the first match. A default that does not exist stays unchanged: it may never be read.
Value resolved_file(const Value& value, bool is_default) {
  const fs::path written = OptionType<fs::path>::read(value);
  if (is_default && written.empty()) return value;
  if (written.empty()) throw ConfigError(value.mark(), "the name of the file is empty");
  if (is_remote(written.native())) return value;  // whether it is there is known when it is read
  const std::vector<fs::path> places = places_of_file(written, value.mark());
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (fs::exists(place, ignored) || names_checkpoint_of_run(place) ||
        (has_wildcards(place) && !matching_files(place).empty()))
      return Value(place.string()).with_mark(value.mark());
  }
  if (is_default) return value;
  const std::string looked_for = join(places, "' and '", &fs::path::native);
  throw ConfigError(value.mark(), format("there is no such file: looked for '{}'{}", looked_for, file_meant(places.front())));
}

Value resolved_files(Value value, bool is_default) {
  if (value.is_list()) {
    for (Value& element : value.as_list()) element = resolved_file(element, is_default);
    return value;
  }
  return value.is_null() ? value : resolved_file(value, is_default);
}

}  // namespace

std::vector<std::string> bounds(const OptionInfo& info) {
  std::vector<std::string> texts;
  const auto add = [&](const char* relation, const std::optional<double>& bound) {
    if (!bound) return;
    const std::string number = float_text(*bound);
    texts.push_back(relation + (number.ends_with(".0") ? number.substr(0, number.size() - 2) : number));
  };
  add("at least ", info.minimum);
  add("above ", info.above);
  add("at most ", info.maximum);
  add("below ", info.below);
  return texts;
}

void naming(const std::string& name, const std::function<void()>& step) {
  try {
    step();
  } catch (const ConfigError& error) {
    ErrorCollector named;
    for (const ConfigError& single : single_errors(error)) named.add({single.mark(), format("{}: {}", name, single.message())});
    named.throw_if_any();
  }
}

void check_rule(const std::vector<std::string>& options, const Value& map, const std::function<std::string()>& problem) {
  std::string text;
  try {
    text = problem();
  } catch (const ConfigError& error) {
    text = error.message();
  }
  if (text.empty()) return;
  for (const std::string& name : options) {
    const Value* const value = map.find(name);
    if (value != nullptr && !value->is_null()) throw ConfigError(value->mark(), text);
  }
  throw ConfigError(map.mark(), text);
}

void throw_wrong_choice(const Value& value, const std::vector<std::string>& choices) {
  const std::string nearest = nearest_name(value.is_string() ? value.as_string() : "", choices);
  throw ConfigError(value.mark(), format("must be one of {}, got {}{}", quoted_list(choices), describe(value),
                                         nearest.empty() ? "" : format("; did you mean '{}'?", nearest)));
}

bool admits_null(const Value& schema) {
  const Value null("null");
  if (const Value* type = schema.find("type")) {
    return *type == null || (type->is_list() && std::ranges::find(type->as_list(), null) != type->as_list().end());
  }
  if (const Value* alternatives = schema.find("anyOf")) return std::ranges::any_of(alternatives->as_list(), admits_null);
  return schema.size() == 0;  // anything passes
}

void check_text(const Value& value) {
  // Cut off there, it would name another file, and one that is there would be looked for again and again.
  if (!value.is_string() || value.as_string().find('\0') == std::string::npos) return;
  throw ConfigError(value.mark(), "has a NUL character (\\0), got " + describe(value));
}

std::vector<fs::path> places_of_file(const fs::path& written, const Mark& mark) {
  // A configuration brings its own files; what lies in the folder where it is run may be anything.
  std::vector<fs::path> places = {fs::absolute(fs::path(mark.file).parent_path() / written).lexically_normal()};
  fs::path here = fs::absolute(written).lexically_normal();
  if (here != places.front()) places.push_back(std::move(here));
  return places;
}

Value resolve_input_file(const Value& value) { return resolved_file(value, /*is_default=*/false); }

void resolve_defaults(const std::vector<OptionInfo>& options, Value& map) {
  for (const OptionInfo& option : options) {
    Value* value = option.input_file ? map.find(option.name) : nullptr;
    if (value != nullptr && *value == option.default_value) *value = resolved_files(*value, /*is_default=*/true);
  }
}

void read_option(const OptionInfo& info, const Value& value, const std::function<void(const Value&)>& read) {
  if (is_unset(info, value)) return;
  check_option(info, value, [&] { read(info.input_file ? resolved_files(value, value == info.default_value) : value); });
}

void check_option(const OptionInfo& info, const Value& value, const std::function<void()>& check) {
  naming(info.name, [&] {
    check_value(info, value);
    check();
  });
}

void check_keys(const std::vector<const OptionInfo*>& known, const Value& map) {
  if (!map.is_null() && !map.is_map()) throw_wrong_type(map, "map");
  ErrorCollector errors;
  std::vector<std::string> names;
  for (const OptionInfo* info : known) names.push_back(info->name);
  static const Value::Map none;
  for (const auto& [key, value] : map.is_map() ? map.as_map() : none) {
    if (std::find(names.begin(), names.end(), key) != names.end()) continue;
    errors.run([&, &key = key, &value = value] {
      throw ConfigError(value.key_mark(), format("unknown key {}{}", quoted_text(key), did_you_mean(key, names, "keys")));
    });
  }
  for (const OptionInfo* info : known) {
    const Value* const value = map.find(info->name);
    if (!info->required || (value != nullptr && !is_unset(*info, *value))) continue;
    errors.add({value != nullptr ? value->mark() : map.mark(),
                format("missing key '{}' ({}: {})", info->name, info->type, info->help)});
  }
  errors.throw_if_any();
}

namespace {

/// A bound, whole where it is.
Value number(double bound) {
  const auto whole = static_cast<std::int64_t>(bound);
  return static_cast<double>(whole) == bound ? Value(whole) : Value(bound);
}

bool is_digits(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Range and choices bind each number or string of the type, however deep: in a list, or in `int or null`.
void restrict(Value& schema, const OptionInfo& info) {
  if (Value* items = schema.find("items")) restrict(*items, info);
  if (Value* alternatives = schema.find("anyOf")) {
    for (Value& alternative : alternatives->as_list()) restrict(alternative, info);
  }
  const Value* found = schema.find("type");
  if (found == nullptr || !found->is_string()) return;
  // A copy: what is added to the schema moves its values.
  const std::string type = found->as_string();
  const bool is_number = type == "number" || type == "integer";
  if (is_number && info.minimum) schema["minimum"] = number(*info.minimum);
  if (is_number && info.maximum) schema["maximum"] = number(*info.maximum);
  if (is_number && info.above) schema["exclusiveMinimum"] = number(*info.above);
  if (is_number && info.below) schema["exclusiveMaximum"] = number(*info.below);
  if (type == "array" && info.not_empty) schema["minItems"] = 1;
  if (type == "object" && info.not_empty) schema["minProperties"] = 1;
  const bool has_form = schema.contains("pattern") || schema.contains("const") || schema.contains("enum");
  if (type == "string" && !has_form) {
    if (info.input_file || info.not_empty) schema["minLength"] = 1;
    // The reader takes a number for a string, so the schema does.
    schema["type"] = Value(Value::List{"string", "number"});
    Value::List names;
    for (const std::string& choice : info.choices) {
      names.emplace_back(choice);
      if (is_digits(choice)) names.emplace_back(static_cast<std::int64_t>(std::stoll(choice)));
    }
    if (!names.empty()) schema["enum"] = Value(std::move(names));
  }
}

/// Lets null pass as well.
void admit_null(Value& schema) {
  if (Value* type = schema.find("type")) {
    if (!type->is_list()) *type = Value(Value::List{*type});
    type->push_back("null");
    if (Value* names = schema.find("enum")) names->push_back(Value());
  } else if (Value* alternatives = schema.find("anyOf")) {
    alternatives->push_back(schema_of_type("null"));
  } else {
    schema = any_of({std::move(schema), schema_of_type("null")});
  }
}

Value schema_of_option(const OptionInfo& info) {
  Value schema = info.schema;
  restrict(schema, info);
  // A required option has no default for null.
  if (!info.required && !info.null_is_value) admit_null(schema);
  if (!info.help.empty()) schema["description"] = info.help;
  if (!info.required) schema["default"] = info.default_value;
  return schema;
}

}  // namespace

Value schema_of_options(const std::vector<OptionInfo>& options) {
  Value schema = schema_of_type("object");
  Value& properties = schema["properties"] = Value(Value::Map{});
  Value::List required;
  for (const OptionInfo& info : options) {
    properties[info.name] = schema_of_option(info);
    if (info.required && info.linked_to.empty()) required.emplace_back(info.name);
  }
  if (!required.empty()) schema["required"] = Value(std::move(required));
  schema["additionalProperties"] = false;
  return schema;
}

}  // namespace levin::detail
