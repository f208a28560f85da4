#include "levin/cli/run_config.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>

#include "levin/cli/config_keys.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/options/registry.h"

namespace levin {

namespace cli {

namespace {

/// `init_from:` as a map.
struct InitFromOptions {
  std::filesystem::path path;
  bool strict = true;
  std::string prefix;
  std::map<std::string, std::string> rename;

  static void declare(OptionList<InitFromOptions>& options) {
    using T = InitFromOptions;
    options.add("path", &T::path, "The file").required().input_file();
    options.add("strict", &T::strict, "A name that only the file or the model has, or another shape, is an error");
    options.add("prefix", &T::prefix, "Only weights whose names begin with this are read, without it");
    options.add("rename", &T::rename, "Beginnings of names, and what stands in their place");
  }
};

}  // namespace

void SchedulerSettings::declare(OptionList<SchedulerSettings>& options) {
  using T = SchedulerSettings;
  options.add("interval", &T::interval, "What a step of the schedule is");
  options.add("frequency", &T::frequency, "A step of the schedule every so many intervals").min(1);
  options.add("monitor", &T::monitor, "The metric that ReduceLROnPlateau looks at");
  options.add("strict", &T::strict, "A missing monitor is an error, not a warning");
  options.add("name", &T::name, "What LearningRateMonitor calls it. Unset: lr-<optimizer class>");
}

void RunConfig::declare(OptionList<RunConfig>& options) {
  using T = RunConfig;
  options.add("seed_everything", &T::seed_everything, "Seed of every random number; true: 0, false: none");
  options.add("trainer", &T::trainer, "Flags of the Trainer");
  options.add("model", &T::model, "The Module to run");
  options.add("data", &T::data, "The DataModule with its data; not needed where the model gives its loaders");
  options.add("optimizer", &T::optimizer, "Optimizer in place of the module's own");
  options.add("lr_scheduler", &T::lr_scheduler, "Learning rate schedule of that optimizer");
  options.add("ckpt_path", &T::ckpt_path,
              "Checkpoint to start from: a file; best or last of this experiment, or of a run (logs/version_3:best)");
  options.add(
      "init_from", &T::init_from,
      "Weights that fit begins with, of any file that ckpt_path takes; a path, or a map with path, strict, prefix and rename");
  options.add("map_location", &T::map_location,
              "Device onto which a checkpoint's tensors go when they are read (cpu, cuda:1); empty: at once to the model's");
  options.add("plugins", &T::plugins, "Libraries with classes of your own to load first");
  options.rule({"lr_scheduler"}, [](const T& config) {
    return !config.lr_scheduler.scheduler.empty() && config.optimizer.optimizer.empty()
               ? "it needs an `optimizer:` beside it (optimizer: Adam), which takes the place of the module's "
                 "configure_optimizers; or let configure_optimizers give the scheduler together with its optimizer"
               : "";
  });
}

const std::vector<std::string>& run_command_names() {
  static const std::vector<std::string> names = {"fit", "validate", "test", "predict"};
  return names;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const auto& entry : option_list<RunConfig>().entries()) names.push_back(entry->info.name);
  return names;
}

bool is_component_section(const std::string& name) {
  return name == "model" || name == "data" || name == "optimizer" || name == "lr_scheduler";
}

std::vector<OptionInfo> section_settings(const std::string& section) {
  if (section == "optimizer") return describe_options<ParameterGroupOptions>();
  return section == "lr_scheduler" ? describe_options<SchedulerSettings>() : std::vector<OptionInfo>{};
}

namespace {

/// A section taken apart: the class with its arguments, and what stands beside them.
struct Apart {
  Value component;
  Value settings = Value(Value::Map{});
};

Apart taken_apart(const std::string& section, const Value& value) {
  Apart apart{value};
  if (!value.is_map()) return apart;
  const auto is_setting = [known = names_of(section_settings(section))](const auto& entry) {
    return is_among(known, entry.first);
  };
  const Value::Map& entries = value.as_map();
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(apart.settings.as_map()), is_setting);
  std::erase_if(apart.component.as_map(), is_setting);
  return apart;
}

Value put_together(const Value& class_path, const Value& init_args, const Value& settings) {
  if (class_path.is_null()) return Value();
  Value map(Value::Map{{"class_path", class_path}, {"init_args", init_args}});
  for (const auto& [name, setting] : settings.as_map()) map[name] = setting;
  return map;
}

/// "; did you mean 'interval', which goes beside class_path?" for a key that is no argument of the section's class.
std::string instead_of_argument(const std::string& key, const std::vector<std::string>& arguments,
                                const std::vector<std::string>& settings) {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), settings.begin(), settings.end());
  const std::string nearest = nearest_name(key, all);
  if (is_among(settings, nearest)) return format("; did you mean '{}', which goes beside class_path?", nearest);
  const std::string beside = format("; beside class_path go {}", quoted_list(settings));
  return did_you_mean(key, arguments, "keys") + (nearest.empty() ? beside : "");
}

/// A section's keys are its class's arguments, below init_args, and its settings, beside class_path: an error about a key of
/// neither kind knows both.
void check_section_keys(const std::string& section, const Value& value, const ClassInfo* info) {
  if (!value.is_map()) return;
  const std::vector<std::string> settings = names_of(section_settings(section));
  std::vector<std::string> beside = {"class_path", "init_args"};
  beside.insert(beside.end(), settings.begin(), settings.end());
  ErrorCollector errors;
  for (const auto& [key, setting] : value.as_map()) {
    if (is_among(beside, key)) continue;
    errors.add({setting.key_mark(), format("unknown key {}{} (the arguments of a class go under init_args)", quoted_text(key),
                                           did_you_mean(key, beside, "keys"))});
  }
  const Value* init_args = value.find("init_args");
  const std::vector<std::string> arguments = info != nullptr ? names_of(info->options) : std::vector<std::string>{};
  for (const auto& [key, argument] :
       info != nullptr && init_args != nullptr && init_args->is_map() ? init_args->as_map() : Value::Map{}) {
    if (is_among(arguments, key)) continue;
    errors.add({argument.key_mark(),
                is_among(settings, key)
                    ? format("{} goes beside class_path and init_args, not into init_args", key)
                    : format("unknown key {}{}", quoted_text(key), instead_of_argument(key, arguments, settings))});
  }
  errors.throw_if_any();
}

template <class Base, class Settings>
void read_section(const std::string& section, const Value& value, Component<Base>& component, Settings& settings) {
  const Value* name = value.find("class_path");
  const bool is_named = name != nullptr && name->is_string();
  check_section_keys(section, value, is_named ? Registry<Base>::instance().find(name->as_string()) : nullptr);
  const Apart apart = taken_apart(section, value);
  ErrorCollector errors;
  errors.run([&] { component = OptionType<Component<Base>>::read(apart.component); });
  errors.run([&] { settings = read_options<Settings>(apart.settings); });
  errors.throw_if_any();
}

}  // namespace

}  // namespace cli

cli::Seed OptionType<cli::Seed>::read(const Value& value) {
  if (value.is_null() || value == Value(false)) return {std::nullopt};
  if (value == Value(true)) return {};
  if (!value.is_int()) detail::throw_wrong_type(value, name());
  if (value.as_int() < 0) throw ConfigError(value.mark(), "must be at least 0, got " + describe(value));
  return {value.as_int()};
}

Value OptionType<cli::Seed>::schema() {
  Value number = detail::schema_of_type("integer");
  number["minimum"] = 0;
  return detail::any_of({number, detail::schema_of_type("boolean"), detail::schema_of_type("null")});
}

cli::CheckpointPath OptionType<cli::CheckpointPath>::read(const Value& value) {
  if (value.is_null()) return {};
  if (value == Value("best") || value == Value("last")) return {value.as_string()};
  // "FOLDER:best": what comes before the colon is looked for as any other file.
  const std::string text = value.is_string() ? value.as_string() : "";
  const bool names_run = (text.ends_with(":best") || text.ends_with(":last")) && !std::filesystem::exists(text);
  const std::string which = names_run ? text.substr(text.size() - 5) : "";
  Value place = names_run ? Value(text.substr(0, text.size() - which.size())) : value;
  place.set_mark(value.mark());
  return {detail::resolve_input_file(place).as_string() + which};
}

cli::InitFrom OptionType<cli::InitFrom>::read(const Value& value) {
  if (value.is_null()) return {};
  if (!value.is_map()) return {InitialWeights{.path = detail::resolve_input_file(value).as_string()}};
  const auto options = read_options<cli::InitFromOptions>(value);
  return {InitialWeights{.path = options.path,
                         .options = {.strict = options.strict, .prefix = options.prefix, .rename = options.rename}}};
}

Value OptionType<cli::InitFrom>::write(const cli::InitFrom& init_from) {
  if (!init_from.value) return Value();
  const WeightsOptions& options = init_from.value->options;
  return write_options(cli::InitFromOptions{
      .path = init_from.value->path, .strict = options.strict, .prefix = options.prefix, .rename = options.rename});
}

Value OptionType<cli::InitFrom>::schema() {
  const Value path = detail::schema_of_type("string");
  return detail::any_of(
      {path, detail::schema_of_options(describe_options<cli::InitFromOptions>()), detail::schema_of_type("null")});
}

cli::OptimizerSection OptionType<cli::OptimizerSection>::read(const Value& value) {
  cli::OptimizerSection section;
  cli::read_section("optimizer", value, section.optimizer, section.groups);
  section.groups.check(section.optimizer.class_path(), section.optimizer.init_args());
  return section;
}

Value OptionType<cli::OptimizerSection>::write(const cli::OptimizerSection& section) {
  return cli::put_together(section.optimizer.class_path(), section.optimizer.init_args(), write_options(section.groups));
}

cli::SchedulerSection OptionType<cli::SchedulerSection>::read(const Value& value) {
  cli::SchedulerSection section;
  cli::read_section("lr_scheduler", value, section.scheduler, section.settings);
  if (section.scheduler.class_path() == Value("ReduceLROnPlateau") && !section.settings.monitor)
    throw ConfigError(value.mark(), "ReduceLROnPlateau needs `monitor:` beside class_path: the metric that it looks at");
  return section;
}

Value OptionType<cli::SchedulerSection>::write(const cli::SchedulerSection& section) {
  return cli::put_together(section.scheduler.class_path(), section.scheduler.init_args(), write_options(section.settings));
}

}  // namespace levin
