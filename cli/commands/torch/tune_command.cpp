#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levin/cli/commands/curve_plot.h"
#include "levin/cli/commands/subcommands.h"
#include "levin/cli/commands/torch/configured_run.h"
#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/data_module.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin::cli {
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
  if (key.empty()) return "No option of the configuration has its usual name: set it in your code.";
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
    throw ConfigError("levin tune begins with the first step: remove ckpt_path, and give weights by init_from.");
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
  return {"tune", "Find a learning rate or a batch size before a fit",
          [options](CLI::App& app) {
            app.add_flag("--batch_size", options->batch_size, "Find a batch size instead of a learning rate");
            app.add_option("--output", options->output, "Name of the table (.csv) and the plot (.svg)")->default_str("tune");
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
