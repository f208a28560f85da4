#include "levin/cli/config_file.h"

#include <fstream>
#include <sstream>
#include <string>
#include <system_error>

#include "levin/cli/help_text.h"
#include "levin/cli/plugin_loader.h"
#include "levin/cli/references.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/options/option_check.h"
#include "levin/core/version.h"
#include "levin/core/yaml/to_yaml.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// What a command line and its files say.
class Sources {
 public:
  /// Reads the files: once, although all is merged twice.
  explicit Sources(const CommandLine& line) : line_(line) {
    for (const ConfigSource& source : line.sources) {
      if (const auto* file = std::get_if<ConfigFile>(&source))
        files_.push_back(read_config_file(file->path, line.configured_as()));
    }
  }

  Value merged() const {
    Value config(Value::Map{});
    auto file = files_.begin();
    for (const ConfigSource& source : line_.sources) {
      if (const auto* given = std::get_if<Override>(&source))
        apply_override(config, *given);
      else
        config = cli::merged(std::move(config), *file++);
    }
    return config;
  }

  /// Loads what this line and the files name, and gives their files. Merged again afterwards, the configuration knows their
  /// classes, which an override that changes a class needs.
  std::vector<std::string> load_plugins() const {
    std::vector<std::string> files;
    const Value names = plugin_names();
    for (const Value& name : names.as_list()) {
      detail::check_text(name);
      const fs::path file = find_plugin(name);
      load_plugin(file, name.mark());
      files.push_back(file.string());
    }
    return files;
  }

 private:
  Value plugin_names() const {
    const Value config = merged();
    Value names(Value::List{});
    if (const Value* named = config.find("plugins"); named != nullptr && !named->is_null()) {
      names = interpolated(*named, config);
      if (!names.is_list()) detail::throw_wrong_type(names, "list of path");
    }
    for (const std::string& plugin : line_.plugins) names.push_back(Value(plugin).with_mark(Mark{"command line: --plugin"}));
    return names;
  }

  const CommandLine& line_;
  std::vector<Value> files_;
};

std::string with_place(const Value& value) {
  const std::string place = value.mark().str();
  return format("{} ({})", describe(value), place.empty() ? "the default" : place);
}

[[noreturn]] void throw_not_written(const fs::path& file, const std::string& reason) {
  throw IoError(format("cannot write '{}': {}", file, reason));
}

/// Keeps the configuration of an earlier run as config_1.yaml, config_2.yaml, …, the highest number the latest.
void set_aside(const fs::path& file) {
  for (int number = 1;; ++number) {
    const fs::path aside = file.parent_path() / format("config_{}.yaml", number);
    if (fs::exists(fs::symlink_status(aside))) continue;
    std::error_code error;
    fs::rename(file, aside, error);
    if (error) throw_not_written(aside, error.message());
    return;
  }
}

}  // namespace

RunConfig load_config(const CommandLine& line) {
  const Sources sources(line);
  const std::vector<std::string> plugins = sources.load_plugins();
  const Value merged = with_links(sources.merged());
  Value whole = interpolated(merged, merged);
  RunConfig config;
  ErrorCollector errors;
  errors.run([&] { take_misplaced(whole, section_names(), merged); });
  if (Value* trainer = whole.find("trainer")) {
    errors.run([&] {
      detail::naming("trainer", [&] { take_misplaced(*trainer, names_of(describe_options<TrainerOptions>()), merged); });
    });
  }
  errors.run([&] { config = read_options<RunConfig>(whole); });
  errors.throw_if_any();
  config.plugins = plugins;
  return config;
}

Value config_as_far_as_known(const CommandLine& line) {
  try {
    const Sources sources(line);
    sources.load_plugins();
    return sources.merged();
  } catch (const ConfigError&) {
  } catch (const IoError&) {
  }
  return {};
}

std::string load_plugins_of(const CommandLine& line) {
  std::string text;
  for (const std::string& file : Sources(line).load_plugins()) text += format("plug-in: {}\n", file);
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
    if (of_data == nullptr || of_model == *of_data) continue;
    if (of_model.is_number() && of_data->is_number() && of_model.as_double() == of_data->as_double()) continue;
    if (of_model.mark().str().empty() && of_data->mark().str().empty()) continue;
    lines.push_back(
        format("model and data both have an option {}, each its own: {} for the model, {} for the data. For one value in both, "
               "write ${{data.{}}} for the model's.",
               name, with_place(of_model), with_place(*of_data), name));
  }
  return lines;
}

std::string printed_config(const Value& config) { return to_yaml(escaped(config), config_comments(config)); }

fs::path save_config(const Value& config, const fs::path& folder) {
  const std::string text = format("# levin {}\n{}", kVersion, to_yaml(escaped(config)));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_not_written(folder, error.message());
  const fs::path file = folder / "config.yaml";
  if (fs::exists(file, error)) {
    std::ostringstream present;
    present << std::ifstream(file, std::ios::binary).rdbuf();
    if (present.str() == text) return file;
    set_aside(file);
  }
  AtomicFile output(file);
  output.write(text);
  output.commit();
  return file;
}

}  // namespace levin::cli
