#include "levin/cli/json_schema.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "levin/cli/class_catalog.h"
#include "levin/cli/run_config.h"
#include "levin/core/base/format.h"
#include "levin/core/base/join.h"
#include "levin/core/options/options.h"

namespace levin::cli {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const Value& value) {
  if (value.is_bool()) return value.as_bool();
  if (value.is_int()) return value.as_int();
  if (value.is_double()) return value.as_double();
  if (value.is_string()) return value.as_string();
  if (value.is_list()) {
    Json list = Json::array();
    for (const Value& element : value.as_list()) list.push_back(to_json(element));
    return list;
  }
  if (value.is_map()) {
    Json map = Json::object();
    for (const auto& [key, element] : value.as_map()) map[key] = to_json(element);
    return map;
  }
  return nullptr;
}

bool is_required(const OptionInfo& option) { return option.required; }

bool needs_arguments(const ClassInfo& info) { return std::any_of(info.options.begin(), info.options.end(), is_required); }

// A name as the registries match it: alone, or as the last part of a dotted or C++ name.
std::string name_pattern(const std::vector<const ClassInfo*>& classes) {
  return format("^(.*[.:])?({})$", join(classes, "|", &ClassInfo::name));
}

Value map_of(std::initializer_list<std::pair<std::string, Value>> entries) { return Value(Value::Map(entries)); }

// "When class_path is this one, init_args are these."
Value rule_of_class(const ClassInfo& info) {
  Value rule(Value::Map{});
  rule["if"]["properties"]["class_path"]["pattern"] = name_pattern({&info});
  rule["if"]["required"] = Value(Value::List{"class_path"});
  rule["then"]["properties"]["init_args"] = detail::schema_of_options(info.options);
  if (needs_arguments(info)) rule["then"]["required"] = Value(Value::List{"init_args"});
  return rule;
}

Value schema_of_kind(const ClassKind& kind) {
  Value::List names, rules;
  std::vector<const ClassInfo*> without_required;
  for (const ClassInfo* info : kind.classes) {
    names.emplace_back(info->name);
    rules.push_back(rule_of_class(*info));
    if (!needs_arguments(*info)) without_required.push_back(info);
  }
  Value name_alone = detail::any_of({map_of({{"enum", Value(names)}}), map_of({{"pattern", name_pattern(kind.classes)}})});
  name_alone["type"] = "string";

  Value with_arguments = detail::schema_of_type("object");
  Value& properties = with_arguments["properties"];
  properties["class_path"] = name_alone;
  properties["init_args"] = map_of({{"type", Value("object")}});
  if (kind.name == "lr_scheduler") {
    const Value settings = detail::schema_of_options(describe_options<SchedulerSettings>());
    for (const auto& [name, schema] : settings.at("properties").as_map()) properties[name] = schema;
  }
  with_arguments["required"] = Value(Value::List{"class_path"});
  with_arguments["additionalProperties"] = false;
  if (!rules.empty()) with_arguments["allOf"] = Value(std::move(rules));

  Value alone = name_alone;
  if (without_required.size() != kind.classes.size()) alone["pattern"] = name_pattern(without_required);
  Value schema = detail::any_of({alone, with_arguments});
  schema["description"] = "One of the " + kind.plural;
  return schema;
}

}  // namespace

Value config_schema() {
  Value schema(Value::Map{});
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "levin run";
  const Value sections = detail::schema_of_options(describe_options<RunConfig>());
  for (const auto& [key, value] : sections.as_map()) schema[key] = value;
  Value& definitions = schema["$defs"] = Value(Value::Map{});
  for (const ClassKind& kind : class_catalog()) definitions[kind.name] = schema_of_kind(kind);
  return schema;
}

std::string json_text(const Value& value) { return to_json(value).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace levin::cli
