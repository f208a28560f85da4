#include "levin/cli/run_config.h"

#include <algorithm>
#include <filesystem>

namespace levin {

namespace cli {

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
  options.add("plugins", &T::plugins, "Libraries with classes of your own to load first");
  options.rule({"lr_scheduler"}, [](const T& config) {
    return !config.lr_scheduler.scheduler.empty() && config.optimizer.empty()
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

std::vector<std::string> scheduler_setting_names() {
  std::vector<std::string> names;
  for (const auto& entry : option_list<SchedulerSettings>().entries()) names.push_back(entry->info.name);
  return names;
}

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

cli::SchedulerSection OptionType<cli::SchedulerSection>::read(const Value& value) {
  Value component = value, settings(Value::Map{});
  if (value.is_map()) {
    const std::vector<std::string> names = cli::scheduler_setting_names();
    const auto is_setting = [&](const auto& entry) {
      return std::find(names.begin(), names.end(), entry.first) != names.end();
    };
    std::copy_if(value.as_map().begin(), value.as_map().end(), std::back_inserter(settings.as_map()), is_setting);
    std::erase_if(component.as_map(), is_setting);
  }
  cli::SchedulerSection section;
  ErrorCollector errors;
  errors.run([&] { section.scheduler = OptionType<Component<LrSchedulerFactory>>::read(component); });
  errors.run([&] { section.settings = read_options<cli::SchedulerSettings>(settings); });
  errors.throw_if_any();
  if (section.scheduler.class_path() == Value("ReduceLROnPlateau") && !section.settings.monitor)
    throw ConfigError(value.mark(), "ReduceLROnPlateau needs `monitor:` beside class_path: the metric that it looks at");
  return section;
}

Value OptionType<cli::SchedulerSection>::write(const cli::SchedulerSection& section) {
  if (section.scheduler.empty()) return Value();
  Value map(Value::Map{});
  map["class_path"] = section.scheduler.class_path();
  map["init_args"] = section.scheduler.init_args();
  const Value settings = write_options(section.settings);
  for (const auto& [name, setting] : settings.as_map()) map[name] = setting;
  return map;
}

}  // namespace levin
