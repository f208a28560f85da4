#include "levin/cli/config/run_config.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "levin/cli/config/class_catalog.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/option_check.h"
#include "levin/core/config/registry.h"

namespace levin {

namespace cli {

void SchedulerSettings::declare(OptionList<SchedulerSettings>& options) {
  using T = SchedulerSettings;
  options.add("interval", &T::interval, "What a step of the schedule is");
  options.add("frequency", &T::frequency, "A step of the schedule every so many intervals").min(1);
  options.add("monitor", &T::monitor, "The metric that ReduceLROnPlateau watches");
  options.add("strict", &T::strict, "A missing monitor is an error, not a warning");
  options.add("name", &T::name, "Its name in LearningRateMonitor. Unset: lr-<optimizer class>");
}

void RunConfig::declare(OptionList<RunConfig>& options) {
  using T = RunConfig;
  options.add("seed_everything", &T::seed_everything, "Seed of every random number; true: 0, false: none");
  options.add("trainer", &T::trainer, "Flags of the Trainer");
  options.add("model", &T::model, "The Module to run");
  options.add("data", &T::data, "The DataModule with its data; not needed if the model gives its loaders");
  options.add("optimizer", &T::optimizer, "Optimizer to use instead of the module's own");
  options.add("lr_scheduler", &T::lr_scheduler, "Learning rate schedule of that optimizer");
  options.add("ckpt_path", &T::ckpt_path,
              "Checkpoint to start from: a file; best or last of this experiment, or of a run (logs/version_3:best)");
  options.add("init_from", &T::init_from,
              "Weights that fit begins with, of any file that ckpt_path takes; a path, or a map with path, key, strict, prefix "
              "and rename");
  options.add("map_location", &T::map_location,
              "Device that a checkpoint's tensors are read to (cpu, cuda:1); empty: the model's");
  options.add("key", &T::key,
              "Which dict of tensors are the weights, where ckpt_path or init_from is a file of torch.save() with several: "
              "generator, models.a");
  options.add("report", &T::report, "When fit ends, write what levin report shows of the run to report.html in its folder");
  options.add("plugins", &T::plugins, "Plug-in libraries to load first");
  options.rule({"lr_scheduler"}, [](const T& config) {
    return !config.lr_scheduler.component.empty() && config.optimizer.component.empty()
               ? "it needs an `optimizer:` too (optimizer: Adam), which replaces the module's "
                 "configure_optimizers; or let configure_optimizers return the scheduler together with its optimizer"
               : "";
  });
}

const std::vector<std::string>& run_command_names() {
  static const std::vector<std::string> names = {"fit", "validate", "test", "predict"};
  return names;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const OptionInfo& info : describe_options<RunConfig>()) names.push_back(info.name);
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

/// `init_from:` as a map.
struct InitFromOptions {
  std::filesystem::path path;
  std::string key;
  bool strict = true;
  std::string prefix;
  std::map<std::string, std::string> rename;

  static void declare(OptionList<InitFromOptions>& options) {
    using T = InitFromOptions;
    options.add("path", &T::path, "The file").required().input_file();
    options.add("key", &T::key, "Which dict of tensors, if a file of torch.save() holds several: generator, models.a");
    options.add("strict", &T::strict, "A name that only the file or the model has, or another shape, is an error");
    options.add("prefix", &T::prefix, "Read only weights whose names begin with this, and remove it");
    options.add("rename", &T::rename, "Prefixes of names, and their replacements");
  }
};

/// What is wrong with a key that is not an argument of the section's class.
std::string no_argument(const std::string& key, const std::vector<std::string>& arguments,
                        const std::vector<std::string>& settings) {
  if (is_among(settings, key)) return format("{} goes next to class_path and init_args, not into init_args", key);
  std::vector<std::string> all = arguments;
  all.insert(all.end(), settings.begin(), settings.end());
  const std::string nearest = nearest_name(key, all);
  const std::string wrong = "unknown key " + quoted_text(key);
  if (is_among(settings, nearest)) return format("{}; did you mean '{}', which goes next to class_path?", wrong, nearest);
  const std::string hint = nearest.empty() ? format("; next to class_path go {}", quoted_list(settings)) : "";
  return wrong + did_you_mean(key, arguments, "keys") + hint;
}

/// Takes out of a section what is next to class_path and init_args. An error about a key knows the class's arguments, below
/// init_args, and the section's settings, next to class_path.
Value take_settings(const std::string& section, Value& value) {
  Value taken(Value::Map{});
  if (!value.is_map()) return taken;
  const std::vector<std::string> settings = names_of(section_settings(section));
  std::vector<std::string> keys = {"class_path", "init_args"};
  keys.insert(keys.end(), settings.begin(), settings.end());
  ErrorCollector errors;
  std::erase_if(value.as_map(), [&](const auto& entry) {
    const auto& [key, setting] = entry;
    if (!is_among(keys, key))
      errors.add({setting.key_mark(), format("unknown key {}{} (the arguments of a class go under init_args)", quoted_text(key),
                                             did_you_mean(key, keys, "keys"))});
    if (is_among(settings, key)) taken.as_map().push_back(entry);
    return is_among(settings, key);
  });
  const Value* name = value.find("class_path");
  const ClassInfo* info = name != nullptr && name->is_string() ? class_kind(section).find(name->as_string()) : nullptr;
  const Value* init_args = value.find("init_args");
  if (info != nullptr && init_args != nullptr && init_args->is_map()) {
    const std::vector<std::string> arguments = names_of(info->options);
    for (const auto& [key, argument] : init_args->as_map()) {
      if (!is_among(arguments, key)) errors.add({argument.key_mark(), no_argument(key, arguments, settings)});
    }
  }
  errors.throw_if_any();
  return taken;
}

void check(const OptimizerSection& section, const Value&) {
  section.settings.check(section.component.class_path(), section.component.init_args());
}

void check(const SchedulerSection& section, const Value& value) {
  const std::string monitor = section.settings.monitor.value_or("");
  if (monitor == "step" || monitor == "epoch")
    throw ConfigError(value.mark(), "monitor: step and epoch always grow: name a metric");
  if (section.component.class_path() == Value("ReduceLROnPlateau") && !section.settings.monitor)
    throw ConfigError(value.mark(), "ReduceLROnPlateau needs `monitor:` next to class_path: the metric to watch");
}

}  // namespace

}  // namespace cli

cli::Seed OptionType<cli::Seed>::read(const Value& value) {
  if (value.is_null() || value == Value(false)) return {std::nullopt};
  if (value == Value(true)) return {};
  if (!value.is_int()) detail::throw_wrong_type(value, name());
  if (value.as_int() < 0) throw ConfigError(value.mark(), "must be at least 0, got " + describe(value) + "; false sets none");
  return {value.as_int()};
}

Value OptionType<cli::Seed>::schema() {
  const Value number(Value::Map{{"type", "integer"}, {"minimum", 0}});
  return detail::any_of({number, detail::schema_of_type("boolean"), detail::schema_of_type("null")});
}

cli::CheckpointPath OptionType<cli::CheckpointPath>::read(const Value& value) {
  if (value.is_null()) return {};
  if (value == Value("best") || value == Value("last")) return {value.as_string()};
  const std::string text = value.is_string() ? value.as_string() : "";
  const auto is_there = [](const std::filesystem::path& place) { return std::filesystem::exists(place); };
  if (const std::string meant = nearest_name(text, {"best", "last"});
      !meant.empty() && std::ranges::none_of(detail::places_of_file(text, value.mark()), is_there))
    throw ConfigError(value.mark(), format("there is no file '{}'; did you mean '{}'?", text, meant));
  return {detail::resolve_input_file(value).as_string()};
}

cli::InitFrom OptionType<cli::InitFrom>::read(const Value& value) {
  if (value.is_null()) return {};
  if (!value.is_map()) return {InitialWeights{.path = detail::resolve_input_file(value).as_string()}};
  const auto options = read_options<cli::InitFromOptions>(value);
  return {InitialWeights{
      .path = options.path,
      .options = {.strict = options.strict, .prefix = options.prefix, .rename = options.rename, .key = options.key}}};
}

Value OptionType<cli::InitFrom>::write(const cli::InitFrom& init_from) {
  if (!init_from.value) return Value();
  const WeightsOptions& options = init_from.value->options;
  return write_options(cli::InitFromOptions{.path = init_from.value->path,
                                            .key = options.key,
                                            .strict = options.strict,
                                            .prefix = options.prefix,
                                            .rename = options.rename});
}

Value OptionType<cli::InitFrom>::schema() {
  const Value path = detail::schema_of_type("string");
  return detail::any_of(
      {path, detail::schema_of_options(describe_options<cli::InitFromOptions>()), detail::schema_of_type("null")});
}

template <class Base, class Settings>
cli::Section<Base, Settings> OptionType<cli::Section<Base, Settings>>::read(const Value& value) {
  Value named = value;
  const Value settings = cli::take_settings(Registry<Base>::kind(), named);
  cli::Section<Base, Settings> section;
  ErrorCollector errors;
  errors.run([&] { section.component = OptionType<Component<Base>>::read(named); });
  errors.run([&] { section.settings = read_options<Settings>(settings); });
  errors.throw_if_any();
  cli::check(section, value);
  return section;
}

template <class Base, class Settings>
Value OptionType<cli::Section<Base, Settings>>::write(const cli::Section<Base, Settings>& section) {
  if (section.component.class_path().is_null()) return Value();
  Value map(Value::Map{{"class_path", section.component.class_path()}, {"init_args", section.component.init_args()}});
  const Value settings = write_options(section.settings);
  map.as_map().insert(map.as_map().end(), settings.as_map().begin(), settings.as_map().end());
  return map;
}

template struct OptionType<cli::OptimizerSection>;
template struct OptionType<cli::SchedulerSection>;

}  // namespace levin
