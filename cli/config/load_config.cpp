#include "levin/cli/config/load_config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/config_file.h"
#include "levin/cli/config/config_merge.h"
#include "levin/cli/config/interpolation.h"
#include "levin/cli/config/misplaced_keys.h"
#include "levin/cli/config/plugin_loader.h"
#include "levin/cli/lightning/from_lightning.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/masked_value.h"
#include "levin/core/config/option_check.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// A part of a configuration: a map that a file has, or an override.
using Layer = std::variant<Value, Override>;

/// What a command line and its files say, in the order in which later ones win.
std::vector<Layer> read_layers(const CommandLine& line) {
  std::vector<Layer> layers;
  for (const ConfigSource& source : line.sources) {
    if (const auto* given = std::get_if<Override>(&source)) {
      layers.emplace_back(*given);
      continue;
    }
    const auto& [path, text] = std::get<ConfigFile>(source);
    const std::string command = line.configured_as();
    for (Value& map : text ? read_config_text(path, *text, command) : read_config_file(path, command))
      layers.emplace_back(std::move(map));
  }
  return layers;
}

/// Merges them. A class that replaces another keeps the arguments that both have, so the classes of plug-ins must be known.
Value merged_layers(const std::vector<Layer>& layers) {
  Value config(Value::Map{});
  for (const Layer& layer : layers) {
    if (const auto* given = std::get_if<Override>(&layer))
      apply_override(config, *given);
    else
      config = merged(std::move(config), std::get<Value>(layer));
  }
  return config;
}

bool has_reference(const Value& value) {
  if (value.is_list()) return std::ranges::any_of(value.as_list(), has_reference);
  return value.is_string() && value.as_string().find("${") != std::string::npos;
}

/// `plugins:` of all layers; the other sections are merged only for what it refers to.
Value named_plugins(const std::vector<Layer>& layers) {
  std::vector<Layer> naming;
  for (const Layer& layer : layers) {
    const auto* given = std::get_if<Override>(&layer);
    if (given != nullptr && split(given->key, ".").front() == "plugins") naming.push_back(layer);
    const Value* named = given == nullptr ? std::get<Value>(layer).find("plugins") : nullptr;
    if (named != nullptr) naming.emplace_back(Value(Value::Map{{"plugins", *named}}));
  }
  const Value config = merged_layers(naming);
  const Value* named = config.find("plugins");
  if (named == nullptr || named->is_null()) return Value(Value::List{});
  Value names = interpolated(*named, has_reference(*named) ? merged_layers(layers) : config);
  if (!names.is_list()) detail::throw_wrong_type(names, "list of path");
  return names;
}

/// Loads the plug-ins that a command line and its files name, and gives the libraries.
std::vector<std::string> load_plugins(const CommandLine& line, const std::vector<Layer>& layers) {
  Value names = named_plugins(layers);
  for (const std::string& plugin : line.plugins) names.push_back(Value(plugin).with_mark(Mark{"command line: --plugin"}));
  std::vector<std::string> libraries;
  for (const Value& name : names.as_list()) {
    detail::check_text(name);
    const fs::path file = find_plugin(name);
    load_plugin(file, name.mark());
    libraries.push_back(file.string());
  }
  return libraries;
}

std::string with_place(const Value& value) {
  const std::string place = value.mark().str();
  return format("{} ({})", describe(value), place.empty() ? "the default" : place);
}

}  // namespace

RunConfig load_config(const CommandLine& line) {
  const std::vector<Layer> layers = read_layers(line);
  const std::vector<std::string> plugins = load_plugins(line, layers);
  const Value merged = with_links(merged_layers(layers));
  RunConfig config;
  ErrorCollector errors;
  ErrorCollector references;
  Value whole = interpolated(merged, merged, &references);
  bool all_refer = false;
  errors.run([&] {
    references.throw_if_any();
    all_refer = true;
  });
  errors.run([&] { refuse_masked(whole); });
  IgnoredSettings ignored_settings = translate_lightning(whole, errors);
  errors.run([&] { remove_misplaced(whole, section_names(), merged); });
  if (Value* trainer = whole.find("trainer")) {
    errors.run([&] {
      detail::naming("trainer", [&] { remove_misplaced(*trainer, names_of(describe_options<TrainerOptions>()), merged); });
    });
  }
  // What a reference did not give is null, at which some option would be missing.
  if (all_refer) errors.run([&] { config = read_options<RunConfig>(whole); });
  errors.throw_if_any();
  config.plugins = plugins;
  config.ignored_settings = std::move(ignored_settings);
  return config;
}

Value partial_config(const CommandLine& line) {
  try {
    const std::vector<Layer> layers = read_layers(line);
    try {
      load_plugins(line, layers);
    } catch (const ConfigError&) {
      // The files can be merged without the classes of these plug-ins.
    }
    return merged_layers(layers);
  } catch (const ConfigError&) {
  } catch (const IoError&) {
  }
  return {};
}

std::string load_plugins_of(const CommandLine& line) {
  std::string text;
  for (const std::string& file : load_plugins(line, read_layers(line))) text += format("plug-in: {}\n", file);
  return text.empty() ? "" : text + "\n";
}

void require_model(const CommandLine& line, const RunConfig& config) {
  if (!config.model.empty()) return;
  const std::string known = join(class_kind("model").classes(), ", ", &ClassInfo::name);
  const auto is_file = [](const ConfigSource& source) { return std::holds_alternative<ConfigFile>(source); };
  if (std::none_of(line.sources.begin(), line.sources.end(), is_file)) {
    std::error_code ignored;
    throw ConfigError(format(
        "there is no configuration: no --config FILE is given, and no config.yaml is in '{}', where levin {} looks for one. "
        "levin new NAME writes a project with one; or give --model=CLASS and --data=CLASS ({}).",
        fs::current_path(ignored), line.command, known));
  }
  throw ConfigError(format("there is no model: give `model: CLASS` in the YAML or --model=CLASS ({})",
                           known.empty() ? "none is registered: load a plug-in with --plugin FILE" : "registered: " + known));
}

std::vector<std::string> different_shared_options(const Value& model, const Value& data) {
  std::vector<std::string> lines;
  if (!model.is_map()) return lines;
  for (const auto& [name, of_model] : model.as_map()) {
    const Value* of_data = data.find(name);
    if (of_data == nullptr || of_model == *of_data) continue;
    if (of_model.is_number() && of_data->is_number() && of_model.as_double() == of_data->as_double()) continue;
    if (of_model.mark().str().empty() && of_data->mark().str().empty()) continue;
    lines.push_back(
        format("model and data both have an option {}, with different values: {} for the model, {} for the data. For one value "
               "in both, "
               "write ${{data.{}}} for the model's.",
               name, with_place(of_model), with_place(*of_data), name));
  }
  return lines;
}

}  // namespace levin::cli
