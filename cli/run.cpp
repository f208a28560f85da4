#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <utility>

#include "levin/cli/command_line.h"
#include "levin/cli/config_file.h"
#include "levin/cli/curve_plot.h"
#include "levin/cli/fit_summary.h"
#include "levin/cli/plugin_loader.h"
#include "levin/cli/report/report_page.h"
#include "levin/cli/runs/run_folder.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/data_module.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/written_files.h"
#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/optimizers/parameter_groups.h"
#include "levin/core/random/seed.h"
#include "levin/core/run_check.h"
#include "levin/core/trainer.h"

namespace levin::cli {
namespace {

/// "run.yaml, --trainer.max_epochs=2": what the configuration was made of, in order.
std::string sources_text(const CommandLine& line) {
  std::vector<std::string> words;
  for (const ConfigSource& source : line.sources) {
    const auto* file = std::get_if<ConfigFile>(&source);
    words.push_back(one_line(file != nullptr ? file->path : std::get<Override>(source).written()));
  }
  return join(without_secrets(std::move(words)));
}

/// Ends a fit before it trains where something was found.
class CheckReport final : public Callback {
 public:
  // After the checks, which stand before it.
  void on_fit_start(Trainer& trainer, Module&) override {
    std::vector<std::string> found;
    for (const RunCheck* check : trainer.callbacks_of<RunCheck>()) {
      if (!check->findings().empty()) found.push_back(check->class_name());
    }
    if (!found.empty()) throw Error("levin check: something was found by " + join(found));
  }
};

/// What a command that does not train leaves out of a fit.
void leave_out_reports(TrainerOptions& options) {
  options.logger = false;
  options.profiler = {};
  options.enable_checkpointing = options.enable_model_summary = options.enable_progress_bar = false;
}

/// What of a fit `levin check` leaves out, and the checks, each as the configuration has it or with its defaults.
void make_check(TrainerOptions& options) {
  std::vector<Component<Callback>> checks;
  for (const char* name : {"CheckData", "CheckInit", "CheckGradients"}) {
    Value arguments(Value::Map{});
    for (const Component<Callback>& given : options.callbacks) {
      if (given.class_path() == Value(name)) arguments = given.init_args();
    }
    arguments["fail"] = "warn";
    checks.emplace_back(Value(name), arguments);
  }
  checks.emplace_back(std::make_shared<CheckReport>());
  options.callbacks = std::move(checks);
  leave_out_reports(options);
  options.num_sanity_val_steps = 0;
  options.min_epochs.reset();
  options.min_steps.reset();
}

/// The configuration's `optimizer:` and `lr_scheduler:` take the place of the module's own.
void override_optimizers(Trainer& trainer, const RunConfig& config) {
  const auto& [optimizer, groups] = config.optimizer;
  if (optimizer.empty()) return;
  Value settings = write_options(config.lr_scheduler.settings);
  settings.set_mark(config.lr_scheduler.component.class_path().mark());
  const auto factory =
      groups.empty() ? optimizer.get() : grouped_optimizer_factory(optimizer.class_path(), optimizer.init_args(), groups);
  trainer.override_optimizers(factory, config.lr_scheduler.component.get(), settings);
}

void seed(const RunConfig& config) {
  if (config.seed_everything.value) seed_everything(static_cast<std::uint64_t>(*config.seed_everything.value));
}

/// `report: true`. A report that cannot be written is no reason for a run to fail. Rank: 0.
void write_report(const Trainer& trainer) try {
  for (const auto& logger : trainer.loggers()) {
    const std::filesystem::path folder = logger->log_dir();
    if (folder.empty() || !is_written_by_run(folder)) continue;
    write_file(folder / "report.html", report_page({read_run_folder(folder)}));
    return rank_zero_info("report: ", as_typed(folder / "report.html"));
  }
} catch (const IoError& error) {
  rank_zero_warn("there is no report: ", error.what());
}

/// A fit, with its report also where it fails.
void fit(Trainer& trainer, const RunConfig& config, const std::function<void()>& run) {
  const bool reports = config.report && trainer.is_global_zero();
  try {
    run();
  } catch (...) {
    if (reports) write_report(trainer);
    throw;
  }
  if (reports) write_report(trainer);
}

/// Makes the Trainer (which starts the other ranks), the module and its data, and calls the entry point. Ranks: all.
void run_config(const CommandLine& line, const RunConfig& config) {
  const std::string& command = line.command;
  const double begin = steady_seconds();
  seed(config);
  TrainerOptions trainer_options = config.trainer;
  if (command == "predict" && !trainer_options.enable_prediction_writer) trainer_options.enable_prediction_writer = true;
  if (command == "check") make_check(trainer_options);
  Trainer trainer(trainer_options);
  rank_zero_info("configuration: ", sources_text(line));
  for (const std::string& difference : different_shared_options(config.model.init_args(), config.data.init_args())) {
    rank_zero_info(difference);
  }
  if (!config.without_effect.lines().empty()) {
    rank_zero_warn("Taken from Lightning, and without effect in levin: ", join(config.without_effect.lines()), ".");
  }
  for (const std::string& plugin : config.plugins) {
    if (check_stamps(plugin).optimized) continue;
    rank_zero_warn(
        format("The plug-in '{}' was compiled without optimization: it may be many times slower. Build it with -O2 "
               "(CMAKE_BUILD_TYPE=Release).",
               plugin));
  }
  // What best or last is may be another file tomorrow, or seen from another folder.
  const bool names_run = config.ckpt_path.value && !std::filesystem::is_regular_file(*config.ckpt_path.value);
  std::filesystem::path saved_config;
  trainer.on_log_dir(
      [&saved_config, complete = write_options(config), names_run](const auto& folder, const auto& checkpoint) mutable {
        if (names_run && !checkpoint.empty())
          complete["ckpt_path"] = std::filesystem::absolute(checkpoint).lexically_normal().string();
        list_written_files(folder);  // a user's own logger may not have asked for it
        saved_config = save_config(complete, folder);
      });
  const std::shared_ptr<Module> module = config.model.get();
  const std::shared_ptr<DataModule> data = config.data.get();
  override_optimizers(trainer, config);
  if (command != "fit" && command != "check" && !config.ckpt_path.value && !config.trainer.fast_dev_run) {
    rank_zero_warn(
        format("{} without a checkpoint: the weights are those that the model begins with, untrained unless it loads "
               "some itself. To {} what was trained, add --ckpt_path=best (or last, or a file).",
               command, command));
  }
  const bool has_init_from = config.init_from.value.has_value();
  const auto how_to_resume = [&](const auto& file) { return resume_command(line.words, file, has_init_from); };
  const RunOptions options{.ckpt_path = command == "check" ? std::nullopt : config.ckpt_path.value,
                           .init_from = config.init_from.value,
                           .map_location = config.map_location,
                           .key = config.key,
                           .return_predictions = false,
                           .resume_command = how_to_resume};
  if (command == "check") trainer.stop("levin check trains nothing");
  if (command == "fit" || command == "check")
    fit(trainer, config, [&] { data ? trainer.fit(*module, *data, options) : trainer.fit(*module, options); });
  if (command == "fit" && trainer.is_global_zero() && !config.trainer.fast_dev_run) {
    rank_zero_info(fit_summary(trainer, line, saved_config, steady_seconds() - begin));
  }
  if (command == "validate") data ? trainer.validate(*module, *data, options) : trainer.validate(*module, {}, options);
  if (command == "test") data ? trainer.test(*module, *data, options) : trainer.test(*module, {}, options);
  if (command == "predict") data ? trainer.predict(*module, *data, options) : trainer.predict(*module, {}, options);
}

}  // namespace

Subcommand run_subcommand(const std::string& name, const std::string& help) {
  const auto prints = std::make_shared<bool>(false);
  return {name, help,
          [prints](CLI::App& app) {
            app.add_flag("--print_config", *prints, "Print the complete configuration with comments, and exit");
            declare_sources(app);
            app.footer(run_command_footer());
          },
          [prints](const CommandLine& line) {
            if (*prints) {
              std::cout << printed_config(write_options(load_config(line)));
              return 0;
            }
            const RunConfig config = begin_run(line);
            require_model(line, config);
            run_config(line, config);
            return 0;
          }};
}

namespace {

constexpr const char* kRateFinder = "LearningRateFinder";
constexpr const char* kSizeFinder = "BatchSizeFinder";

struct TuneOptions {
  bool batch_size = false;
  std::string output = "tune";
  std::map<std::string, std::string> finder;  ///< its options, as they were typed
};

std::vector<OptionInfo> finder_options(const char* name) {
  std::vector<OptionInfo> options = class_kind("callback").find(name)->options;
  std::erase_if(options, [](const OptionInfo& option) { return option.name == "update"; });
  return options;
}

Component<Callback> make_finder(const TuneOptions& options) {
  Value arguments(Value::Map{{"update", false}});
  for (const auto& [name, text] : options.finder) {
    if (!text.empty()) arguments[name] = read_yaml_argument("command line: --" + name, text);
  }
  return OptionType<Component<Callback>>::read(
      Value::Map{{"class_path", options.batch_size ? kSizeFinder : kRateFinder}, {"init_args", std::move(arguments)}});
}

/// "model.init_args.lr": the first option of these names that a class of the configuration has; "" when none has.
std::string key_of(const RunConfig& config, const std::vector<std::string>& sections, const std::vector<std::string>& names) {
  const Value written = write_options(config);
  for (const std::string& section : sections) {
    const Value& spec = written.at(section);
    for (const OptionInfo& option : spec.is_null() ? std::vector<OptionInfo>() : options_of(spec)) {
      if (is_among(names, option.name)) return format("{}.init_args.{}", section, option.name);
    }
  }
  return "";
}

/// What to put into the configuration.
std::string advice(const std::string& key, const std::string& number) {
  if (key.empty()) return "No option of the configuration has it by its usual name: set it where your code has it.";
  const std::vector<std::string> parts = split(key, ".");
  return format("For the YAML file:\n\n{}:\n  {}:\n    {}: {}\n\nor the command line: --{}={}", parts[0], parts[1], parts[2],
                number, key, number);
}

void report(const TuneOptions& options, const std::string& table, const Curve& curve, const std::string& found) {
  write_file(options.output + ".csv", table);
  const bool is_drawn = !curve.points.empty();
  if (is_drawn) write_file(options.output + ".svg", svg_plot(curve));
  rank_zero_info("\n", text_plot(curve));
  const std::string svg = is_drawn ? format(", {}.svg", options.output) : "";
  rank_zero_info("written: ", options.output, ".csv", svg, "\n\n", found);
}

void report_rate(const TuneOptions& options, const RunConfig& config, const Value& found, bool is_linear) {
  Curve curve{.x_name = "learning rate", .y_name = "loss", .is_logarithmic = !is_linear};
  std::string table = "lr,loss\n";
  const Value& suggestion = found.at("suggestion");
  for (std::size_t step = 0; step < found.at("lr").size(); ++step) {
    const double lr = found.at("lr").as_list()[step].as_double();
    const double loss = found.at("loss").as_list()[step].as_double();
    table += format("{},{}\n", lr, loss);
    if (!std::isfinite(loss)) continue;
    if (!suggestion.is_null() && lr == suggestion.as_double()) curve.marked = curve.points.size();
    curve.points.emplace_back(lr, loss);
  }
  const std::string key = key_of(config, {"optimizer", "model"}, {"lr", "learning_rate"});
  report(options, table, curve, suggestion.is_null() ? "" : advice(key, format("{:.3g}", suggestion.as_double())));
}

void report_size(const TuneOptions& options, const RunConfig& config, const Value& found) {
  std::map<std::int64_t, double> speeds;
  std::string table = "batch_size,fits,samples_per_second,peak_bytes\n";
  for (const Value& trial : found.at("trials").as_list()) {
    const std::int64_t size = trial.at("batch_size").as_int();
    const double speed = trial.at("samples_per_second").as_double();
    table += format("{},{},{},{}\n", size, trial.at("fits").as_bool(), speed, trial.at("peak_bytes").as_int());
    if (trial.at("fits").as_bool()) speeds[size] = speed;
  }
  Curve curve{.x_name = "batch size", .y_name = "samples/s", .is_logarithmic = true};
  curve.points.assign(speeds.begin(), speeds.end());
  report(options, table, curve,
         advice(key_of(config, {"data", "model"}, {"batch_size"}), std::to_string(found.at("batch_size").as_int())));
}

/// As levin fit, but for an end before the first epoch. Ranks: all.
void tune(const CommandLine& line, const TuneOptions& options) {
  CommandLine fit = line;
  fit.command = "fit";
  const RunConfig config = begin_run(fit);
  require_model(line, config);
  if (config.ckpt_path.value)
    throw ConfigError("levin tune begins with the first step: leave ckpt_path out, and give weights by init_from.");
  seed(config);
  const Component<Callback> finder = make_finder(options);
  const std::shared_ptr<Callback> callback = finder.get();
  TrainerOptions trainer_options = config.trainer;
  trainer_options.max_epochs = 0;
  trainer_options.quiet = false;
  trainer_options.log_level = std::min(trainer_options.log_level, LogLevel::kInfo);
  leave_out_reports(trainer_options);
  trainer_options.callbacks = {callback};
  trainer_options.fast_dev_run = false;
  trainer_options.limit_val_batches = 0;
  Trainer trainer(trainer_options);
  const std::shared_ptr<Module> module = config.model.get();
  const std::shared_ptr<DataModule> data = config.data.get();
  override_optimizers(trainer, config);
  const RunOptions run{.init_from = config.init_from.value, .map_location = config.map_location, .key = config.key};
  data ? trainer.fit(*module, *data, run) : trainer.fit(*module, run);
  if (!trainer.is_global_zero()) return;
  const Value found = callback->state_dict();
  options.batch_size ? report_size(options, config, found)
                     : report_rate(options, config, found, finder.init_args().at("mode") == Value("linear"));
}

}  // namespace

Subcommand tune_subcommand() {
  const auto options = std::make_shared<TuneOptions>();
  return {"tune", "Find a learning rate, or a batch size, before the first epoch of a fit",
          [options](CLI::App& app) {
            app.add_flag("--batch_size", options->batch_size, "Find a batch size, and not a learning rate");
            app.add_option("--output", options->output, "Where the table (.csv) and the plot (.svg) go")->default_str("tune");
            for (const char* name : {kRateFinder, kSizeFinder}) {
              for (const OptionInfo& option : finder_options(name)) {
                const bool is_new = options->finder.emplace(option.name, "").second;
                if (!is_new) continue;
                CLI::Option& added = *app.add_option("--" + option.name, options->finder[option.name], option.help);
                added.group(name)->type_name(option.choices.empty() ? "TEXT" : choice_name(option.choices));
              }
            }
            declare_sources(app);
          },
          [options](const CommandLine& line) {
            tune(line, *options);
            return 0;
          }};
}

}  // namespace levin::cli
