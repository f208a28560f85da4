#include <algorithm>

#include "levin/core/options/options.h"

namespace levin::detail {
namespace {

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
