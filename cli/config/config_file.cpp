#include "levin/cli/config/config_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/run_config.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/cli/lightning/from_lightning.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/option_check.h"
#include "levin/core/config/option_type.h"
#include "levin/core/files/file_meant.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

fs::path file_named_by(const Value& name) {
  detail::check_text(name);
  const fs::path written = OptionType<fs::path>::read(name);
  const fs::path next_to_file = fs::path(name.mark().file).parent_path() / written;
  std::error_code ignored;
  for (const fs::path& candidate : {next_to_file, written}) {
    if (fs::is_regular_file(candidate, ignored)) return candidate;
  }
  throw ConfigError(name.mark(), format("there is no file {}: looked for '{}'{}", quoted_text(written.string()),
                                        join(detail::places_of_file(written, name.mark()), "' and '", &fs::path::native),
                                        file_meant(next_to_file)));
}

/// Takes a key out of a map; null when it lacks the key.
Value taken(Value& map, const std::string& key) {
  const Value* found = map.find(key);
  Value value = found != nullptr ? *found : Value();
  std::erase_if(map.as_map(), [&](const auto& entry) { return entry.first == key; });
  return value;
}

void check_is_config(const Value& value, const fs::path& file) {
  if (value.is_map()) return;
  if (value.is_null()) throw ConfigError(Mark{file}, "the file is empty; it should hold trainer:, model: and data:");
  throw ConfigError(value.mark(), "a configuration is a map with trainer:, model: and data:, got " + describe(value));
}

/// Sections for another command than the one that runs, which are not checked further.
void check_command_section(const Value& sections, const std::string& command) {
  const std::vector<std::string> known = section_names();
  const auto of_lightning = lightning_arguments_of(kTopKeys, "");
  ErrorCollector errors;
  for (const auto& [key, value] : sections.as_map()) {
    if (!is_among(known, key) && std::ranges::find(of_lightning, key, &LightningArgument::name) == of_lightning.end()) {
      errors.add(
          {value.key_mark(), format("{}: unknown key {}{}", command, quoted_text(key), did_you_mean(key, known, "sections"))});
    }
  }
  errors.throw_if_any();
}

/// Takes the sections of one command out of a file, and those of the others.
Value take_command_sections(Value& config, const std::string& command) {
  Value sections(Value::Map{});
  for (const std::string& each : run_command_names()) {
    const Value* const found = config.find(each);
    if (found != nullptr && !found->is_map() && !found->is_null()) continue;  // an error, with all others
    Value taken_out = taken(config, each);
    if (taken_out.is_null()) continue;
    if (each == command)
      sections = std::move(taken_out);
    else
      check_command_section(taken_out, each);
  }
  return sections;
}

Value with_section_files(Value config) {
  for (auto& [section, value] : config.as_map()) {
    if (is_section_file(section, value)) value = read_section_file(value);
  }
  return with_levin_shape(std::move(config));
}

void add_layers(std::vector<Value>& layers, const fs::path& file, const std::string& command, std::vector<fs::path>& open);

/// `own`: what a file holds, or a text of that name. `open`: the files that include it, and itself.
void add_layers_of(Value own, std::vector<Value>& layers, const fs::path& name, const std::string& command,
                   std::vector<fs::path>& open) {
  check_is_config(own, name);
  Value included = taken(own, "include");
  if (!included.is_list() && !included.is_null()) included = Value(Value::List{std::move(included)});
  for (const Value& file : included.is_null() ? Value::List{} : included.as_list()) {
    if (!file.is_string()) detail::throw_wrong_type(file, "the name of a file, or a list of names");
    add_layers(layers, file_named_by(file), command, open);
  }
  Value of_command = take_command_sections(own, command);
  layers.push_back(with_section_files(std::move(own)));
  if (of_command.size() > 0) layers.push_back(with_section_files(std::move(of_command)));
}

void add_layers(std::vector<Value>& layers, const fs::path& file, const std::string& command, std::vector<fs::path>& open) {
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(file, ignored);
  if (std::find(open.begin(), open.end(), real) != open.end())
    throw ConfigError(Mark{file}, format("includes itself: {}", join(open, " includes ", &fs::path::native)));
  open.push_back(real);
  add_layers_of(read_yaml_file(file), layers, file, command, open);
  open.pop_back();
}

}  // namespace

bool is_section_file(const std::string& section, const Value& value) {
  if (!value.is_string() || (section != "trainer" && !is_component_section(section))) return false;
  const std::string extension = fs::path(value.as_string()).extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json";
}

Value read_section_file(const Value& name) {
  const fs::path file = file_named_by(name);
  Value content = read_yaml_file(file);
  if (content.is_null()) throw ConfigError(Mark{file}, "the file is empty");
  return content;
}

std::vector<Value> read_config_file(const fs::path& file, const std::string& command) {
  std::vector<Value> layers;
  std::vector<fs::path> open;
  add_layers(layers, file, command, open);
  return layers;
}

std::vector<Value> read_config_text(const std::string& name, const std::string& text, const std::string& command) {
  std::vector<Value> layers;
  std::vector<fs::path> open;
  add_layers_of(read_yaml(SourceText(name, text)), layers, name, command, open);
  return layers;
}

}  // namespace levin::cli
