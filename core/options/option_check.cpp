#include "levin/core/options/option_check.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/options/options.h"

namespace levin::detail {

namespace fs = std::filesystem;

namespace {

void check_range(const OptionInfo& info, const Value& value) {
  const double number = value.as_double();
  // Written so that NaN is outside of every range.
  const bool in_range = (!info.minimum || number >= *info.minimum) && (!info.above || number > *info.above) &&
                        (!info.maximum || number <= *info.maximum) && (!info.below || number < *info.below);
  if (in_range) return;
  throw ConfigError(value.mark(), format("must be {}, got {}", join(bounds(info), " and "), describe(value)));
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
  if ((value.is_string() || value.is_int()) && !info.choices.empty()) check_choice(info, value);
}

/// The absolute path of the first of the places that is there.
std::optional<std::string> found_file(const fs::path& written, const Mark& mark) {
  for (const fs::path& place : places_of_file(written, mark)) {
    std::error_code ignored;
    if (fs::exists(place, ignored)) return place.string();
  }
  return std::nullopt;
}

/// A default names a file that need not be there: nobody may read it.
void resolve_default(Value& value) {
  if (value.is_list()) std::for_each(value.as_list().begin(), value.as_list().end(), resolve_default);
  if (!value.is_string() || value.as_string().empty()) return;
  if (const auto found = found_file(OptionType<fs::path>::read(value), value.mark()))
    value = Value(*found).with_mark(value.mark());
}

Value resolve_input_files(const OptionInfo& info, Value value) {
  if (value == info.default_value) {
    resolve_default(value);
  } else if (value.is_list()) {
    for (Value& element : value.as_list()) element = resolve_input_file(element);
  } else if (!value.is_null()) {
    value = resolve_input_file(value);
  }
  return value;
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
    if (const Value* value = map.find(name)) throw ConfigError(value->mark(), text);
  }
  throw ConfigError(map.mark(), text);
}

void throw_wrong_choice(const Value& value, const std::vector<std::string>& choices) {
  const std::string nearest = nearest_name(value.is_string() ? value.as_string() : "", choices);
  throw ConfigError(value.mark(), format("must be one of {}, got {}{}", quoted_list(choices), describe(value),
                                         nearest.empty() ? "" : format("; did you mean '{}'?", nearest)));
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

Value resolve_input_file(const Value& value) {
  const fs::path written = OptionType<fs::path>::read(value);
  if (written.empty()) throw ConfigError(value.mark(), "the name of the file is empty");
  const auto found = found_file(written, value.mark());
  if (!found) {
    const std::string places = join(places_of_file(written, value.mark()), "' and '", &fs::path::native);
    throw ConfigError(value.mark(), format("there is no such file: looked for '{}'", places));
  }
  return Value(*found).with_mark(value.mark());
}

void resolve_defaults(const std::vector<OptionInfo>& options, Value& map) {
  for (const OptionInfo& option : options) {
    Value* value = option.input_file ? map.find(option.name) : nullptr;
    if (value != nullptr && *value == option.default_value) resolve_default(*value);
  }
}

void read_option(const OptionInfo& info, const Value& value, const std::function<void(const Value&)>& read) {
  check_option(info, value, [&] { read(info.input_file ? resolve_input_files(info, value) : value); });
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
    if (info->required && !map.contains(info->name))
      errors.add({map.mark(), format("missing key '{}' ({}: {})", info->name, info->type, info->help)});
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
    // The reader takes digits for a string, so the schema does.
    schema["type"] = Value(Value::List{"string", "integer"});
    Value::List names;
    for (const std::string& choice : info.choices) {
      names.emplace_back(choice);
      if (is_digits(choice)) names.emplace_back(static_cast<std::int64_t>(std::stoll(choice)));
    }
    if (!names.empty()) schema["enum"] = Value(std::move(names));
  }
}

Value schema_of_option(const OptionInfo& info) {
  Value schema = info.schema;
  restrict(schema, info);
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
