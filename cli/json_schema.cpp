#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "levin/cli/class_catalog.h"
#include "levin/cli/help_text.h"
#include "levin/cli/load_config.h"
#include "levin/cli/run_config.h"
#include "levin/cli/subcommands.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
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

bool needs_arguments(const ClassInfo& info) {
  const auto is_needed = [](const OptionInfo& option) { return option.required && option.linked_to.empty(); };
  return std::any_of(info.options.begin(), info.options.end(), is_needed);
}

// A name as the registries match it: alone, or as the last part of a dotted or C++ name.
std::string name_pattern(const std::vector<const ClassInfo*>& classes) {
  return format("^(.*[.:])?({})$", join(classes, "|", &ClassInfo::name));
}

Value map_of(std::initializer_list<std::pair<std::string, Value>> entries) { return Value(Value::Map(entries)); }

/// A parameter group may have any of the options, and has init_args' values of the others.
Value schema_of_group(const std::vector<OptionInfo>& options) {
  const Value patterns = OptionType<ParameterGroup>::schema();
  Value group = detail::schema_of_options(options);
  for (auto& [name, option] : group["properties"].as_map())
    std::erase_if(option.as_map(), [](const auto& entry) { return entry.first == "default"; });
  for (const auto& [name, schema] : patterns.at("properties").as_map()) group["properties"][name] = schema;
  group["required"] = patterns.at("required");
  return group;
}

// "When class_path is this one, init_args are these."
Value rule_of_class(const std::string& kind, const ClassInfo& info) {
  Value rule(Value::Map{});
  rule["if"]["properties"]["class_path"]["pattern"] = name_pattern({&info});
  rule["if"]["required"] = Value(Value::List{"class_path"});
  rule["then"]["properties"]["init_args"] = detail::schema_of_options(info.options);
  if (needs_arguments(info)) rule["then"]["required"] = Value(Value::List{"init_args"});
  if (kind == Registry<OptimizerFactory>::kind()) {
    rule["then"]["properties"]["groups"]["items"] = schema_of_group(info.options);
  }
  return rule;
}

Value schema_of_kind(const ClassKind& kind) {
  Value::List names, rules;
  std::vector<const ClassInfo*> without_required;
  for (const ClassInfo* info : kind.classes()) {
    names.emplace_back(info->name);
    rules.push_back(rule_of_class(kind.name, *info));
    if (!needs_arguments(*info)) without_required.push_back(info);
  }
  Value name_alone = detail::any_of({map_of({{"enum", Value(names)}}), map_of({{"pattern", name_pattern(kind.classes())}})});
  name_alone["type"] = "string";

  Value with_arguments = detail::schema_of_type("object");
  Value& properties = with_arguments["properties"];
  properties["class_path"] = name_alone;
  properties["init_args"] = map_of({{"type", Value("object")}});
  const Value settings = detail::schema_of_options(section_settings(kind.name));
  for (const auto& [name, schema] : settings.at("properties").as_map()) properties[name] = schema;
  with_arguments["required"] = Value(Value::List{"class_path"});
  with_arguments["additionalProperties"] = false;
  if (!rules.empty()) with_arguments["allOf"] = Value(std::move(rules));

  Value alone = name_alone;
  if (without_required.size() != kind.classes().size()) alone["pattern"] = name_pattern(without_required);
  Value schema = detail::any_of({alone, with_arguments});
  schema["description"] = "One of the " + kind.plural;
  return schema;
}

Value reference_to(const std::string& definition) { return map_of({{"$ref", "#/$defs/" + definition}}); }

/// Wherever a value may stand, a text with `${…}` may. What an editor shows of the value stays outermost.
Value with_references(Value schema) {
  Value outer(Value::Map{});
  for (const char* shown : {"description", "default"}) {
    if (const Value* found = schema.find(shown)) outer[shown] = *found;
    std::erase_if(schema.as_map(), [&](const auto& entry) { return entry.first == shown; });
  }
  const bool is_choice_only = schema.size() == 1 && schema.contains("anyOf");
  outer["anyOf"] = is_choice_only ? std::move(schema["anyOf"]) : Value(Value::List{std::move(schema)});
  outer["anyOf"].push_back(reference_to("reference"));
  return outer;
}

/// The same for all that a schema holds. Conditions stay as they are.
void admit_references(Value& schema) {
  if (schema.is_list()) {
    for (Value& element : schema.as_list()) admit_references(element);
  }
  if (!schema.is_map()) return;
  for (auto& [key, part] : schema.as_map()) {
    if (key == "if" || key == "enum" || key == "default") continue;
    admit_references(part);
    if (key == "properties") {
      for (auto& entry : part.as_map()) entry.second = with_references(std::move(entry.second));
    } else if ((key == "items" || key == "additionalProperties") && part.is_map()) {
      part = with_references(std::move(part));
    }
  }
}

/// A section may be a file of its own.
void admit_section_files(Value& properties) {
  for (auto& [section, schema] : properties.as_map()) {
    if (section != "trainer" && !is_component_section(section)) continue;
    Value file = detail::schema_of_type("string");
    file["pattern"] = "\\.(ya?ml|json)$";
    Value whole = detail::any_of({schema, std::move(file)});
    whole["description"] = schema.at("description");
    schema = std::move(whole);
  }
}

Value schema_of_sections() {
  Value sections = detail::schema_of_options(describe_options<RunConfig>());
  admit_section_files(sections["properties"]);
  return sections;
}

}  // namespace

Value config_schema() {
  Value schema(Value::Map{});
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "levin run";
  const Value sections = schema_of_sections();
  for (const auto& [key, value] : sections.as_map()) schema[key] = value;
  Value& properties = schema["properties"] = Value(Value::Map{});
  for (const std::string& section : section_names()) properties[section] = reference_to("sections/properties/" + section);
  const Value text = detail::schema_of_type("string");
  Value list = detail::schema_of_type("array");
  list["items"] = text;
  properties["include"] = detail::any_of({text, list});
  properties["include"]["description"] = "Configurations that are read before this one, which wins over them";
  for (const std::string& command : run_command_names()) {
    properties[command] = detail::any_of({reference_to("sections"), detail::schema_of_type("null")});
    properties[command]["description"] = format("Sections for `levin {}` alone", command);
  }
  Value& definitions = schema["$defs"] = Value(Value::Map{});
  definitions["sections"] = sections;
  for (const ClassKind& kind : class_catalog()) definitions[kind.name] = schema_of_kind(kind);
  admit_references(definitions);
  definitions["reference"] = map_of({{"type", "string"}, {"pattern", "\\$\\{.+\\}"}});
  return schema;
}

Subcommand schema_subcommand() {
  return {"schema", "Print the JSON Schema of the YAML, for editors, with the classes of --config's plug-ins", declare_sources,
          [](const CommandLine& line) {
            load_plugins_of(line);
            std::cout << json_text(config_schema());
            return 0;
          }};
}

std::string json_text(const Value& value) { return to_json(value).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace levin::cli
