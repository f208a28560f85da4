#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <utility>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/commands/torch/configured_run.h"
#include "levin/cli/commands/torch/fit_summary.h"
#include "levin/cli/config/config_text.h"
#include "levin/cli/config/help_text.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/shell_words.h"
#include "levin/cli/report/report_page.h"
#include "levin/cli/runs/run_folder.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/data_module.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/written_files.h"
#include "levin/core/logger.h"
#include "levin/core/module.h"
#include "levin/core/run_check.h"
#include "levin/core/trainer.h"

namespace levin::cli {
namespace {

/// Ends a fit before it trains where something was found.
class CheckReport final : public Callback {
 public:
  // After the checks, which stand before it.
  void on_fit_start(Trainer& trainer, Module&) override {
    std::vector<std::string> found;
    for (const RunCheck* check : trainer.callbacks_of<RunCheck>()) {
      if (!check->findings().empty()) found.push_back(check->class_name());
    }
    if (!found.empty()) throw Error("levin check: problems found by " + join(found));
  }
};

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

/// `report: true`. A report that cannot be written is no reason for a run to fail. Rank: 0.
void write_report(const Trainer& trainer) try {
  for (const auto& logger : trainer.loggers()) {
    const std::filesystem::path folder = logger->log_dir();
    if (folder.empty() || !is_written_by_run(folder)) continue;
    write_file(folder / "report.html", report_page({read_run_folder(folder)}));
    return rank_zero_info("report: ", as_typed(folder / "report.html"));
  }
} catch (const IoError& error) {
  rank_zero_warn("the report cannot be written: ", error.what());
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
  announce(line, config);
  std::filesystem::path saved_config;
  save_config_of(trainer, config, [&](const auto& file) { saved_config = file; });
  const std::shared_ptr<Module> module = config.model.get();
  const std::shared_ptr<DataModule> data = config.data.get();
  override_optimizers(trainer, config);
  if (command != "fit" && command != "check" && !config.ckpt_path.value && !config.trainer.fast_dev_run) {
    rank_zero_warn(
        format("{} without a checkpoint: the weights are the model's initial ones, untrained unless it loads "
               "some itself. To {} a trained model, add --ckpt_path=best (or last, or a file).",
               command, command));
  }
  const bool has_init_from = config.init_from.value.has_value();
  RunOptions options = run_options(config);
  options.return_predictions = false;
  options.resume_command = [&](const auto& file) { return resume_command(line.words, file, has_init_from); };
  if (command == "check") options.ckpt_path.reset();
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

/// A command that runs a configuration.
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

}  // namespace

Subcommand fit_subcommand() { return run_subcommand("fit", "Train a model, and validate it during training"); }
Subcommand validate_subcommand() { return run_subcommand("validate", "Run the validation loop"); }
Subcommand test_subcommand() { return run_subcommand("test", "Run the test loop"); }
Subcommand predict_subcommand() { return run_subcommand("predict", "Run the prediction loop"); }
Subcommand check_subcommand() {
  return run_subcommand("check", "Check data, weights and gradients for errors, without training");
}

}  // namespace levin::cli
