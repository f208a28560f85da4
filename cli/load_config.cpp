#include "levin/cli/load_config.h"

#include "levin/cli/class_catalog.h"
#include "levin/cli/config_keys.h"
#include "levin/cli/plugin_loader.h"
#include "levin/cli/references.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/options/option_check.h"

namespace levin::cli {
namespace {

// A file is read once, although sources are merged twice.
std::vector<Value> read_files(const CommandLine& line) {
  std::vector<Value> files;
  for (const ConfigSource& source : line.sources) {
    if (const auto* file = std::get_if<ConfigFile>(&source)) files.push_back(read_config_file(file->path, line.command));
  }
  return files;
}

Value merge_sources(const std::vector<ConfigSource>& sources, const std::vector<Value>& files) {
  Value config(Value::Map{});
  auto file = files.begin();
  for (const ConfigSource& source : sources) {
    if (const auto* given = std::get_if<Override>(&source))
      apply_override(config, *given);
    else
      config = merged(std::move(config), *file++);
  }
  return config;
}

std::vector<std::string> load_plugins(const Value& names) {
  std::vector<std::string> files;
  for (const Value& name : names.as_list()) {
    detail::check_text(name);
    const std::filesystem::path file = find_plugin(name);
    load_plugin(file, name.mark());
    files.push_back(file.string());
  }
  return files;
}

Value plugin_names(const CommandLine& line, const Value& config) {
  Value names(Value::List{});
  if (const Value* named = config.find("plugins"); named != nullptr && !named->is_null()) {
    names = interpolated(*named, config);
    if (!names.is_list()) detail::throw_wrong_type(names, "list of path");
  }
  for (const std::string& plugin : line.plugins) {
    Value name(plugin);
    name.set_mark(Mark{"command line: --plugin"});
    names.push_back(std::move(name));
  }
  return names;
}

void take_misplaced_flags(Value& trainer, const Value& config) {
  detail::naming("trainer", [&] { take_misplaced(trainer, names_of(describe_options<TrainerOptions>()), config); });
}

bool is_same(const Value& left, const Value& right) {
  return left == right || (left.is_number() && right.is_number() && left.as_double() == right.as_double());
}

std::string with_place(const Value& value) {
  const std::string place = value.mark().str();
  return format("{} ({})", describe(value), place.empty() ? "the default" : place);
}

}  // namespace

RunConfig load_config(const CommandLine& line) {
  const std::vector<Value> files = read_files(line);
  // The first merge finds the plug-ins; the second knows their classes, as changing a class needs.
  const std::vector<std::string> plugins = load_plugins(plugin_names(line, merge_sources(line.sources, files)));
  const Value merged = with_links(merge_sources(line.sources, files));
  Value whole = interpolated(merged, merged);
  RunConfig config;
  ErrorCollector errors;
  errors.run([&] { take_misplaced(whole, section_names(), merged); });
  if (Value* trainer = whole.find("trainer")) errors.run([&] { take_misplaced_flags(*trainer, merged); });
  errors.run([&] { config = read_options<RunConfig>(whole); });
  errors.throw_if_any();
  config.plugins = plugins;
  return config;
}

Value config_as_far_as_known(const CommandLine& line) {
  try {
    const std::vector<Value> files = read_files(line);
    load_plugins(plugin_names(line, merge_sources(line.sources, files)));
    return merge_sources(line.sources, files);
  } catch (const ConfigError&) {
  } catch (const IoError&) {
  }
  return {};
}

std::string load_plugins_of(const CommandLine& line) {
  std::string text;
  for (const std::string& file : load_plugins(plugin_names(line, merge_sources(line.sources, read_files(line)))))
    text += format("plug-in: {}\n", file);
  return text.empty() ? "" : text + "\n";
}

void require_model(const RunConfig& config) {
  if (!config.model.empty()) return;
  const std::string known = join(class_kind("model").classes(), ", ", &ClassInfo::name);
  throw ConfigError(format("there is no model: give `model: CLASS` in the YAML or --model=CLASS ({})",
                           known.empty() ? "none is registered: load a plug-in with --plugin FILE" : "registered: " + known));
}

std::vector<std::string> different_shared_options(const Value& model, const Value& data) {
  std::vector<std::string> lines;
  if (!model.is_map()) return lines;
  for (const auto& [name, of_model] : model.as_map()) {
    const Value* of_data = data.find(name);
    if (of_data == nullptr || is_same(of_model, *of_data)) continue;
    if (of_model.mark().str().empty() && of_data->mark().str().empty()) continue;
    lines.push_back(
        format("model and data both have an option {}, each its own: {} for the model, {} for the data. For one value in both, "
               "write ${{data.{}}} for the model's.",
               name, with_place(of_model), with_place(*of_data), name));
  }
  return lines;
}

}  // namespace levin::cli
