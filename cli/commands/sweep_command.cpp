#include <fcntl.h>
#include <sys/file.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/environment_sources.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/report/report_page.h"
#include "levin/cli/runs/metric_direction.h"
#include "levin/cli/runs/run_folder.h"
#include "levin/cli/sweep/optuna_sampler.h"
#include "levin/cli/sweep/search_space.h"
#include "levin/cli/sweep/sweep_results.h"
#include "levin/cli/sweep/sweep_state.h"
#include "levin/cli/sweep/trial_runner.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/metric_names.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/signal_handlers.h"
#include "levin/core/base/text.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/paths.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// What stands behind `levin sweep`.
struct SweepOptions {
  std::vector<std::string> grid;
  std::vector<std::string> space;
  std::optional<std::int64_t> samples;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> sampler;
  std::string monitor;  ///< empty: what the configuration's callbacks monitor
  std::string mode;     ///< empty: theirs, else what the metric's name says
  bool halving = false;
  std::size_t jobs = 1;
  std::string resume;  ///< the folder of a sweep; empty: a new one
  bool retry = false;  ///< failed trials of that sweep, too
};

void declare(CLI::App& app, SweepOptions& options) {
  const auto one_each = [](CLI::Option* option) { option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll); };
  one_each(
      app.add_option("--grid", options.grid, "KEY=VALUE,VALUE: try all combinations of these values")->type_name("KEY=VALUES"));
  one_each(
      app.add_option("--space", options.space,
                     "KEY=log:LOW..HIGH, uniform:LOW..HIGH, int:LOW..HIGH or choice:VALUE,VALUE: what --random draws from; "
                     "or a YAML file with a section `sweep:`")
          ->type_name("KEY=RANGE"));
  app.add_option("--random", options.samples, "Number of draws from --space")->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "Seed of the draws")->default_str("0");
  app.add_option("--sampler", options.sampler,
                 "What draws: optuna learns from earlier trials (TPE), and needs a Python ($PYTHON) with Optuna")
      ->check(CLI::IsMember({"random", "optuna"}))
      ->default_str("random");
  app.add_option("--monitor", options.monitor, "The metric to compare by; default: that of the configuration's callbacks");
  app.add_option("--mode", options.mode,
                 "Whether its lowest or highest value is best; default: the callbacks' mode, else what its name suggests")
      ->check(CLI::IsMember({"min", "max"}));
  app.add_flag(
      "--halving", options.halving,
      "Begin with few epochs; the best third continues with three times as many, up to the configuration's max_epochs");
  app.add_option("--jobs", options.jobs, "Trials at a time")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--resume", options.resume, "Finish the sweep of this folder, without trials that have ended")
      ->type_name("FOLDER");
  app.add_flag("--retry", options.retry, "With --resume: try failed trials again");
  declare_sources(app);
}

SearchSpace space_of(const SweepOptions& options) {
  SearchSpace space;
  for (const std::string& text : options.grid) space.add_grid(text);
  for (const std::string& text : options.space) {
    text.find('=') == std::string::npos ? space.add_file(text) : space.add_distribution(text);
  }
  if (space.grid.empty() && space.random.empty())
    throw ConfigError("sweep: no values to try: give --grid KEY=VALUE,VALUE, or --random N with --space KEY=log:LOW..HIGH");
  if (!space.random.empty() && !options.samples)
    throw ConfigError(Mark{"command line: --space"}, "give the number of draws with --random N");
  if (space.random.empty() && options.samples)
    throw ConfigError(Mark{"command line: --random"}, "nothing to draw from: give --space KEY=log:LOW..HIGH");
  return space;
}

/// The line as one of a trial: with its values in front of what else it says.
CommandLine with_values(CommandLine line, const Assignment& values) {
  for (const auto& [key, text] : values) line.sources.push_back(Override{key, text});
  return line;
}

/// What the line says of `levin fit`, without what the environment adds, which trials see themselves. A trial that names
/// another model would not look for config.yaml.
std::vector<std::string> fit_arguments(const CommandLine& line) {
  std::vector<std::string> words;
  for (const std::string& plugin : line.plugins) words.push_back("--plugin=" + plugin);
  for (std::size_t index = line.environment_sources - (line.has_project_file ? 1 : 0); index < line.sources.size(); ++index) {
    const auto* const file = std::get_if<ConfigFile>(&line.sources[index]);
    words.push_back(file != nullptr ? "--config=" + file->path : std::get<Override>(line.sources[index]).written());
  }
  return words;
}

/// `monitor` of the configuration's first callback that has one; "" where none has.
std::string monitored_by(const Value& callbacks) {
  for (const Value& callback : callbacks.is_list() ? callbacks.as_list() : Value::List{}) {
    const Value* const arguments = callback.find("init_args");
    const Value* const monitor = arguments == nullptr ? nullptr : arguments->find("monitor");
    if (monitor != nullptr && monitor->is_string()) return monitor->as_string();
  }
  return {};
}

/// Takes the metric and the direction from the command line, else from the configuration, else from the metric's name.
void choose_metric(SweepState& sweep, const SweepOptions& options, const Value& config) {
  sweep.monitor = options.monitor.empty() ? monitored_by(config.at("trainer").at("callbacks")) : options.monitor;
  std::optional<bool> maximize = options.mode.empty() ? std::nullopt : std::optional(options.mode == "max");
  if (!maximize) maximize = monitored_as_larger(config, sweep.monitor);
  if (!maximize) maximize = is_larger_better(sweep.monitor);
  if (!maximize && !sweep.monitor.empty()) ask_for_mode(sweep.monitor);
  sweep.maximize = maximize.value_or(false);
}

fs::path make_sweep_folder(const fs::path& root) {
  std::error_code error;
  fs::create_directories(root, error);
  for (int number = 0; !error; ++number) {
    const fs::path folder = root / format("sweep_{}", number);
    // Of two sweeps, one makes the folder and the other gets an error.
    if (fs::create_directory(folder, error)) return folder;
  }
  throw IoError(format("cannot make a folder in {}: {}", root, error.message()));
}

/// The options that a sweep is started with, as its file has them.
Value begun_with(const SweepOptions& options) {
  return Value::Map{{"random", options.samples.value_or(0)},
                    {"seed", std::to_string(options.seed.value_or(0))},
                    {"sampler", options.sampler.value_or("random")},
                    {"halving", options.halving}};
}

/// Throws ConfigError, which names both, for an option that is given and is not what the sweep was begun with.
void check_unchanged(const SweepState& sweep, const SweepOptions& options) {
  const auto check = [&](bool is_given, const std::string& name, const std::string& given, const std::string& begun) {
    if (!is_given || given == begun) return;
    throw ConfigError(Mark{"command line: --" + name},
                      format("the sweep was started with {}, which cannot become {}. Remove the option, or "
                             "start another sweep",
                             begun.empty() ? format("no --{}", name) : format("--{} {}", name, begun), quoted_text(given)));
  };
  const Value now = begun_with(options);
  const auto text = [](const Value* value) {
    if (value == nullptr) return std::string("an unknown value");  // of an earlier levin
    return value->is_string()                       ? value->as_string()
           : value->is_bool() || *value == Value(0) ? ""
                                                    : std::to_string(value->as_int());
  };
  const auto check_saved = [&](bool is_given, const char* name) {
    check(is_given, name, text(now.find(name)), text(sweep.begun_with.find(name)));
  };
  check(!options.monitor.empty(), "monitor", options.monitor, sweep.monitor);
  check(!options.mode.empty(), "mode", options.mode, sweep.maximize ? "max" : "min");
  check_saved(options.samples.has_value(), "random");
  check_saved(options.seed.has_value(), "seed");
  check_saved(options.sampler.has_value(), "sampler");
  if (options.halving && sweep.rungs.size() < 2)
    throw ConfigError(Mark{"command line: --halving"},
                      "the sweep was started without --halving. Remove the option, or start another sweep");
}

/// Puts secrets, which no file of a sweep has, back into its arguments. Throws ConfigError where one is missing, and for what
/// is given in addition.
void restore_secrets(SweepState& sweep, const CommandLine& line) {
  std::map<std::string, std::string> given;
  for (std::size_t index = line.environment_sources; index < line.sources.size(); ++index) {
    const auto* const option = std::get_if<Override>(&line.sources[index]);
    const std::string text = option == nullptr ? std::get<ConfigFile>(line.sources[index]).path : option->written();
    const std::string name = text.substr(0, text.find('='));
    const auto is_same = [&](const std::string& word) { return word.substr(0, word.find('=')) == name && has_mask(word); };
    if (option == nullptr || std::ranges::none_of(sweep.arguments, is_same))
      throw ConfigError(Mark{"command line: --resume"},
                        format("a resumed sweep keeps its options: remove {}", quoted_text(without_secrets(text))));
    given[name] = text;
  }
  for (std::string& word : sweep.arguments) {
    if (!has_mask(word)) continue;
    const auto again = given.find(word.substr(0, word.find('=')));
    if (again == given.end())
      throw ConfigError(Mark{"command line: --resume"},
                        format("a sweep does not save secrets: give {} again", word.substr(0, word.find('='))));
    word = again->second;
  }
}

/// `devices`: becomes what trials divide.
SweepState new_sweep(const SweepOptions& options, const CommandLine& line, TrialDevices& devices) {
  const SearchSpace space = space_of(options);
  const std::int64_t samples = options.samples.value_or(0);
  const std::uint64_t seed = options.seed.value_or(0);
  if (samples > kMostTrials)
    throw ConfigError(Mark{"command line: --random"}, format("a sweep has at most {} trials, not {}", kMostTrials, samples));
  std::vector<Assignment> trials = space.trials(samples, seed);
  // What is wrong with a key is wrong in all trials.
  const RunConfig config = load_config(with_values(line, trials.front()));
  const bool learns = options.sampler.value_or("random") == "optuna";
  if (learns) trials.assign(static_cast<std::size_t>(std::max<std::int64_t>(samples, 1)), {});
  require_model(line, config);
  devices = TrialDevices(config.trainer, options.jobs);
  SweepState sweep;
  sweep.arguments = fit_arguments(line);
  const Value written = write_options(config);
  choose_metric(sweep, options, written);
  if (learns) {
    const Mark mark{"command line: --sampler"};
    if (!options.samples) throw ConfigError(mark, "give the number of optuna's trials with --random N, and --space");
    if (options.halving)
      throw ConfigError(mark, "optuna chooses each trial after others have ended, so it cannot be combined with --halving");
    if (sweep.monitor.empty()) throw ConfigError(mark, "name the metric that optuna learns from with --monitor METRIC");
    sweep.sampler = OptunaSampler::settings(space, seed);
  }
  sweep.begun_with = begun_with(options);
  if (options.halving) {
    const Value& epochs = written.at("trainer").at("max_epochs");
    if (sweep.monitor.empty())
      throw ConfigError(Mark{"command line: --halving"}, "name the metric that ranks trials with --monitor METRIC");
    if (!epochs.is_int() || epochs.as_int() < 1)
      throw ConfigError(Mark{"command line: --halving"}, "give the epochs of the last trials with --trainer.max_epochs=N");
    sweep.rungs = halving_rungs(trials.size(), epochs.as_int());
  }
  for (const Assignment& values : trials) {
    Trial trial;
    trial.number = sweep.trials.size();
    trial.values = values;
    sweep.trials.push_back(std::move(trial));
  }
  sweep.folder =
      make_sweep_folder(fs::absolute(expand_home(config.trainer.default_root_dir.value_or("."))).lexically_normal() / "sweeps");
  sweep.write();
  return sweep;
}

SweepState resumed_sweep(const SweepOptions& options, const CommandLine& line, TrialDevices& devices) {
  if (!options.grid.empty() || !options.space.empty())
    throw ConfigError(Mark{"command line: --resume"}, "a resumed sweep keeps its options: remove --grid and --space");
  SweepState sweep = SweepState::read(fs::absolute(options.resume).lexically_normal());
  check_unchanged(sweep, options);
  restore_secrets(sweep, line);
  for (Trial& trial : sweep.trials) {
    if (!options.retry || !trial.has_failed()) continue;
    trial.status = "waiting";
    trial.failure.clear();
  }
  // A sampler has given none values yet whose turn has not come.
  const auto known = std::ranges::find_if_not(sweep.trials, [](const Trial& trial) { return trial.values.empty(); });
  if (options.jobs < 2 || known == sweep.trials.end()) return sweep;
  std::vector<std::string> words = trial_command(sweep, *known, 0);
  words.erase(words.begin());  // the program
  CommandLine trial = parse_command_line(words, {{"fit", "", declare_sources, nullptr}});
  add_environment(trial);
  devices = TrialDevices(load_config(trial).trainer, options.jobs);
  return sweep;
}

/// One page of all trials that have become runs.
void write_report(const SweepState& sweep) {
  std::vector<RunFolder> runs;
  try {
    runs = find_runs({sweep.folder});
  } catch (const IoError&) {
    return;  // none came as far
  }
  const fs::path file = sweep.folder / "report.html";
  write_file(file, report_page(runs));
  std::cout << format("report: {}\n", one_line(as_typed(file)));
}

/// Locks the sweep of this folder against other processes, as long as it is open. Throws IoError where another process does.
Descriptor lock_sweep(const fs::path& folder) {
  Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (flock(descriptor.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw IoError(format("another process runs the sweep {}: wait for its end, or stop it", as_typed(folder)));
  return descriptor;
}

int run_sweep(const SweepOptions& options, const CommandLine& line) {
  const bool is_new = options.resume.empty();
  if (is_new && options.retry) throw ConfigError(Mark{"command line: --retry"}, "name the sweep with --resume FOLDER");
  Descriptor lock = is_new ? Descriptor() : lock_sweep(options.resume);
  TrialDevices devices;
  SweepState sweep = is_new ? new_sweep(options, line, devices) : resumed_sweep(options, line, devices);
  if (is_new) lock = lock_sweep(sweep.folder);
  ignore_broken_pipes();  // of a console that is gone
  std::cout << format("sweep: {}, {}\n", one_line(as_typed(sweep.folder)), counted(sweep.trials.size(), "trial")) << std::flush;
  TrialRunner(sweep, options.jobs, devices).run();
  write_file(sweep.folder / "results.csv", results_csv(sweep));
  std::cout << "\n" << results_table(sweep);
  write_report(sweep);
  return std::ranges::all_of(sweep.trials, &Trial::has_failed) ? 1 : 0;
}

}  // namespace

Subcommand sweep_subcommand() {
  const auto options = std::make_shared<SweepOptions>();
  return {"sweep", "Run fit with many values of some keys, and rank them", [options](CLI::App& app) { declare(app, *options); },
          [options](const CommandLine& line) { return run_sweep(*options, line); }};
}

}  // namespace levin::cli
