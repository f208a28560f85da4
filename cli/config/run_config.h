#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "levin/core/config/component.h"
#include "levin/core/config/options.h"
#include "levin/core/optimizers/parameter_groups.h"
#include "levin/core/trainer_options.h"
#include "levin/core/weights.h"

namespace levin::cli {

/// `seed_everything`: a number, true (0) or false and null (no seed).
struct Seed {
  std::optional<std::int64_t> value = 0;
};

/// `ckpt_path`: a file or a run's folder, which must exist, with ":best" or ":last" behind it; "best", "last" or null.
struct CheckpointPath {
  std::optional<std::string> value;
};

/// `init_from`: a file of weights, a map with how they become the model's, or null.
struct InitFrom {
  std::optional<InitialWeights> value;
};

/// How the Trainer drives a scheduler that `lr_scheduler:` names.
struct SchedulerSettings {
  Interval interval = Interval::kEpoch;
  std::int64_t frequency = 1;
  std::optional<std::string> monitor;
  bool strict = true;
  std::optional<std::string> name;
  static void declare(OptionList<SchedulerSettings>& options);
};

/// `optimizer:` and `lr_scheduler:`: a class, with settings next to class_path and init_args.
template <class Base, class Settings>
struct Section {
  Component<Base> component;
  Settings settings;
};
using OptimizerSection = Section<OptimizerFactory, ParameterGroupOptions>;
using SchedulerSection = Section<LrSchedulerFactory, SchedulerSettings>;

/// A line for each setting of Lightning that a configuration has and levin ignores; no option.
class IgnoredSettings {
 public:
  IgnoredSettings() = default;
  IgnoredSettings(std::vector<std::string> lines) : lines_(std::move(lines)) {}
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// Everything a run is made of: the whole YAML. Reading one checks it in full, the arguments of every class included.
struct RunConfig {
  Seed seed_everything;
  TrainerOptions trainer;
  Component<Module> model;
  Component<DataModule> data;
  OptimizerSection optimizer;
  SchedulerSection lr_scheduler;
  CheckpointPath ckpt_path;
  InitFrom init_from;
  std::string map_location;
  std::string key;
  bool report = false;
  std::vector<std::string> plugins;
  IgnoredSettings ignored_settings;

  static void declare(OptionList<RunConfig>& options);
};

/// The commands that run a configuration: fit, validate, test, predict.
const std::vector<std::string>& run_command_names();
/// The keys at the top of the YAML.
std::vector<std::string> section_names();
/// True for a section that is a class: model, data, optimizer, lr_scheduler.
bool is_component_section(const std::string& name);
/// What such a section may have next to class_path and init_args: `interval` of lr_scheduler and the like.
std::vector<OptionInfo> section_settings(const std::string& section);

}  // namespace levin::cli

namespace levin {

template <>
struct OptionType<cli::Seed> {
  static cli::Seed read(const Value& value);
  static Value write(const cli::Seed& seed) { return seed.value ? Value(*seed.value) : Value(false); }
  static std::string name() { return "int, bool or null"; }
  static Value schema();
};

template <>
struct OptionType<cli::CheckpointPath> {
  static cli::CheckpointPath read(const Value& value);
  static Value write(const cli::CheckpointPath& path) { return path.value ? Value(*path.value) : Value(); }
  static std::string name() { return "path, best, last, FOLDER:best, FOLDER:last or null"; }
  static Value schema() { return OptionType<std::optional<std::string>>::schema(); }
};

template <>
struct OptionType<cli::InitFrom> {
  static cli::InitFrom read(const Value& value);
  static Value write(const cli::InitFrom& init_from);
  static std::string name() { return "path, map with path, key, strict, prefix and rename, or null"; }
  static Value schema();
};

template <class Base, class Settings>
struct OptionType<cli::Section<Base, Settings>> {
  static cli::Section<Base, Settings> read(const Value& value);
  static Value write(const cli::Section<Base, Settings>& section);
  static std::string name() { return OptionType<Component<Base>>::name(); }
  static Value schema() { return OptionType<Component<Base>>::schema(); }
};
extern template struct OptionType<cli::OptimizerSection>;
extern template struct OptionType<cli::SchedulerSection>;

}  // namespace levin
