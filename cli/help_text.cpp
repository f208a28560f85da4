#include "levin/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "levin/cli/config_file.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/cli/run_config.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/value_json.h"

namespace levin::cli {
namespace {

// A default: "0.001", "[0.9, 0.999]".
std::string default_text(const Value& value) {
  if (value.is_map() && value.size() > 0) return "{…}";
  if (value.is_list()) return format("[{}]", join(value.as_list(), ", ", default_text));
  return scalar_text(value);
}

// "at least 0", "one of min, max", …
std::vector<std::string> restrictions(const OptionInfo& option) {
  std::vector<std::string> parts = detail::bounds(option);
  if (option.not_empty) parts.push_back("not empty");
  if (!option.choices.empty()) parts.push_back("one of " + join(option.choices));
  return parts;
}

std::string option_help(const OptionInfo& option) {
  std::vector<std::string> facts = {option.type};
  facts.push_back(option.required ? "required" : "default " + default_text(option.default_value));
  if (!option.linked_to.empty()) facts.push_back(format("not given: that of {}", option.linked_to));
  for (std::string& part : restrictions(option)) facts.push_back(std::move(part));
  const std::string help = option.help.empty() ? "" : format("      {}\n", option.help);
  return format("  {}  ({})\n{}", option.name, join(facts), help);
}

std::string options_help(const std::vector<OptionInfo>& options) { return join(options, "", option_help); }

std::string class_help(const std::string& kind, const ClassInfo& info) {
  std::string text = format("{} ({}){}{}\n", info.name, kind, info.help.empty() ? "" : ": ", info.help);
  if (info.options.empty()) return text + "\nIt takes no init_args.\n";
  return format("{}\ninit_args:\n{}", text, options_help(info.options));
}

std::string kind_help(const ClassKind& kind) {
  std::string text = kind.plural + ":\n";
  if (kind.classes().empty()) return text + "  none is registered; load a plug-in with --plugin FILE\n";
  std::size_t width = 0;
  for (const ClassInfo* info : kind.classes()) width = std::max(width, info->name.size());
  for (const ClassInfo* info : kind.classes())
    text += format("  {}\n", info->help.empty() ? info->name : padded(info->name, width + 2) + info->help);
  return text;
}

std::string key_help(const OptionInfo& option) {
  const std::string kind = kind_of(option.schema);
  return option_help(option) +
         (kind.empty() ? "" : format("\n{}\n--help CLASS tells of one of them.\n", kind_help(class_kind(kind))));
}

// The class that is named by, or whose arguments stand at, a path that ends with class_path or init_args.
const ClassInfo* class_at(const Value& config, const YamlPath& path) {
  const Value* node = &config;
  for (std::size_t i = 0; i + 1 < path.size() && node != nullptr; ++i)
    node = node->is_list() ? &node->as_list().at(std::stoul(path[i])) : node->find(path[i]);
  return node != nullptr ? class_of(*node) : nullptr;
}

// The options that the map at the end of a path has: those of a section, or of the class that stands there.
std::vector<OptionInfo> options_at(const Value& config, const YamlPath& path) {
  if (path.empty()) return describe_options<RunConfig>();
  if (path == YamlPath{"trainer"}) return describe_options<TrainerOptions>();
  if (path.size() == 1) return section_settings(path.front());
  const ClassInfo* info = path.back() == "init_args" ? class_at(config, path) : nullptr;
  return info != nullptr ? info->options : std::vector<OptionInfo>{};
}

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

/// Adds what Lightning has and levin takes where it asks for nothing: an editor strikes it through.
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

}  // namespace

std::string kind_of(const Value& schema) {
  if (const Value* reference = schema.find("$ref")) {
    const std::string& text = reference->as_string();
    return text.substr(text.rfind('/') + 1);
  }
  if (const Value* items = schema.find("items")) return kind_of(*items);
  const Value* alternatives = schema.find("anyOf");
  for (const Value& alternative : alternatives != nullptr ? alternatives->as_list() : Value::List{}) {
    if (const std::string kind = kind_of(alternative); !kind.empty()) return kind;
  }
  return {};
}

std::string run_command_footer() {
  std::string text = "\nThe YAML's sections, each also an option (--trainer.max_epochs=5, --model.lr=1e-3):\n";
  for (const OptionInfo& option : describe_options<RunConfig>()) text += format("  {:<18}{}\n", option.name, option.help);
  return text +
         "\n--help trainer lists the Trainer's flags, --help callbacks (or models, loggers, …) the classes there are,\n"
         "--help CLASS the arguments of one, and --print_config everything with its present value.\n";
}

std::string topic_help(const std::string& topic) {
  for (const ClassKind& kind : class_catalog()) {
    if (const ClassInfo* info = kind.find(topic)) return class_help(kind.name, *info);
  }
  const std::vector<OptionInfo> sections = describe_options<RunConfig>();
  const std::vector<OptionInfo> flags = describe_options<TrainerOptions>();
  if (topic == "trainer") return "trainer: flags of the Trainer\n" + options_help(flags);
  const std::string flag_name = topic.starts_with("trainer.") ? topic.substr(8) : topic;
  if (const OptionInfo* section = find_option(sections, topic)) {
    const std::vector<OptionInfo> settings = section_settings(topic);
    if (settings.empty()) return key_help(*section);
    return format("{}\nBeside class_path and init_args:\n{}", key_help(*section), options_help(settings));
  }
  std::vector<std::string> known;
  for (const ClassKind& kind : class_catalog()) {
    if (topic == kind.plural || topic == kind.name) return kind_help(kind);
    known.push_back(kind.plural);
    for (const ClassInfo* info : kind.classes()) known.push_back(info->name);
  }
  if (const OptionInfo* flag = find_option(flags, flag_name)) return key_help(*flag);
  for (const OptionInfo& option : sections) known.push_back(option.name);
  for (const OptionInfo& option : flags) known.push_back("trainer." + option.name);
  const std::string nearest = nearest_name(topic, known);
  throw ConfigError(Mark{"command line"},
                    format("no help on '{}'{}", topic,
                           nearest.empty() ? "; `levin list` names the classes, and with --config FILE those of its plug-ins"
                                           : format("; did you mean '{}'?", nearest)));
}

Subcommand list_subcommand() {
  const auto kind = std::make_shared<std::string>();
  return {"list", "List the classes that YAML may name, those of --config's plug-ins among them",
          [kind](CLI::App& app) {
            app.add_option("kind", *kind, "Of what; all when left out")->type_name(choice_name([] {
              std::vector<std::string> plurals;
              for (const ClassKind& kind : class_catalog()) plurals.push_back(kind.plural);
              return plurals;
            }()));
            declare_sources(app);
          },
          [kind](const CommandLine& line) {
            std::cout << load_plugins_of(line)
                      << (kind->empty() ? join(class_catalog(), "\n", kind_help) : kind_help(class_kind(*kind)));
            return 0;
          }};
}

CommentOf config_comments(const Value& config) {
  return [&config](const YamlPath& path) -> std::string {
    if (path.back() == "class_path") {
      const ClassInfo* info = class_at(config, path);
      return info != nullptr ? info->help : "";
    }
    const std::vector<OptionInfo> options = options_at(config, YamlPath(path.begin(), path.end() - 1));
    const OptionInfo* option = find_option(options, path.back());
    if (option == nullptr) return {};
    const std::string limits = join(restrictions(*option));
    return option->help + (limits.empty() ? "" : format(" ({})", limits));
  };
}

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
            std::cout << plain_json(config_schema());
            return 0;
          }};
}

}  // namespace levin::cli
