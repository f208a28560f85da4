#include "levin/cli/config/config_schema.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

bool needs_arguments(const ClassInfo& info) {
  const auto is_needed = [](const OptionInfo& option) { return option.required && option.linked_to.empty(); };
  return std::any_of(info.options.begin(), info.options.end(), is_needed);
}

// A name as the registries match it: alone, or as the last part of a dotted or C++ name; Lightning's names of these classes
// too.
std::string name_pattern(const std::string& kind, const std::vector<const ClassInfo*>& classes) {
  std::vector<std::string> names;
  for (const ClassInfo* info : classes) {
    names.push_back(info->name);
    for (const LightningClass& other : lightning_classes()) {
      if (other.kind == kind && other.is == info->name) names.insert(names.end(), other.names.begin(), other.names.end());
    }
  }
  return format("^(.*[.:])?({})$", join(names, "|"));
}

Value map_of(std::initializer_list<std::pair<std::string, Value>> entries) { return Value(Value::Map(entries)); }

/// Adds what Lightning has and levin accepts where it has no effect: an editor strikes it through.
void admit_lightning(Value& options, std::string_view kind, const std::string& class_name) {
  Value& properties = options["properties"];
  for (const LightningArgument& argument : lightning_arguments_of(kind, class_name)) {
    if (properties.contains(argument.name)) continue;
    Value& schema = properties[argument.name] = map_of({{"deprecated", true}});
    if (!argument.renamed.empty()) {
      schema["description"] = format("Lightning's name of {}", argument.renamed);
    } else if (argument.instead.empty()) {
      schema["description"] = "Has no effect in levin";
    } else {
      schema["description"] = format("levin has none; {}", argument.instead);
      schema["enum"] = Value(argument.idle);
      schema["enum"].push_back(Value());
    }
  }
}

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
  rule["if"]["properties"]["class_path"]["pattern"] = name_pattern(kind, {&info});
  rule["if"]["required"] = Value(Value::List{"class_path"});
  Value& arguments = rule["then"]["properties"]["init_args"] = detail::schema_of_options(info.options);
  admit_lightning(arguments, kind, info.name);
  if (!needs_arguments(info)) arguments["type"] = Value(Value::List{"object", "null"});
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
  Value name_alone =
      detail::any_of({map_of({{"enum", Value(names)}}), map_of({{"pattern", name_pattern(kind.name, kind.classes())}})});
  name_alone["type"] = "string";

  Value with_arguments = detail::schema_of_type("object");
  Value& properties = with_arguments["properties"];
  properties["class_path"] = name_alone;
  properties["init_args"] = map_of({{"type", Value(Value::List{"object", "null"})}});
  properties["dict_kwargs"] = map_of({{"type", Value(Value::List{"object", "null"})}});
  const Value settings = detail::schema_of_options(section_settings(kind.name));
  for (const auto& [name, schema] : settings.at("properties").as_map()) properties[name] = schema;
  with_arguments["required"] = Value(Value::List{"class_path"});
  with_arguments["additionalProperties"] = false;
  if (!rules.empty()) with_arguments["allOf"] = Value(std::move(rules));

  Value alone = name_alone;
  if (without_required.size() != kind.classes().size()) alone["pattern"] = name_pattern(kind.name, without_required);
  Value schema = detail::any_of({alone, with_arguments});
  schema["description"] = "One of the " + kind.plural;
  return schema;
}

Value reference_to(const std::string& definition) { return map_of({{"$ref", "#/$defs/" + definition}}); }

/// Wherever a value may stand, a text with `${…}` may. What an editor shows of the value stays outermost.
Value with_references(Value schema) {
  Value outer(Value::Map{});
  for (const char* shown : {"description", "default", "deprecated"}) {
    if (const Value* found = schema.find(shown)) outer[shown] = *found;
    std::erase_if(schema.as_map(), [&](const auto& entry) { return entry.first == shown; });
  }
  const bool is_choice_only = schema.size() == 1 && schema.contains("anyOf");
  outer["anyOf"] = is_choice_only ? std::move(schema["anyOf"]) : Value(Value::List{std::move(schema)});
  outer["anyOf"].push_back(reference_to("reference"));
  return outer;
}

/// The same for all that a schema holds. Conditions stay unchanged.
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

/// A section may be in its own file.
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

}  // namespace

Value config_schema() {
  Value schema(Value::Map{});
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "levin run";
  Value sections = detail::schema_of_options(describe_options<RunConfig>());
  admit_lightning(sections, kTopKeys, "");
  admit_lightning(sections["properties"]["trainer"], kTrainerFlags, "");
  admit_section_files(sections["properties"]);
  for (const auto& [key, value] : sections.as_map()) schema[key] = value;
  Value& properties = schema["properties"] = Value(Value::Map{});
  for (const auto& [section, schema_of_section] : sections.at("properties").as_map())
    properties[section] = reference_to("sections/properties/" + section);
  const Value text = detail::schema_of_type("string");
  Value list = detail::schema_of_type("array");
  list["items"] = text;
  properties["include"] = detail::any_of({text, list});
  properties["include"]["description"] = "Configurations to read before this one, which overrides them";
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

}  // namespace levin::cli
