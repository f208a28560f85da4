#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>

#include "levin/cli/command_line.h"
#include "levin/cli/config_file.h"
#include "levin/cli/help_text.h"
#include "levin/cli/plugin_loader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/data_module.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/optimizers/parameter_groups.h"
#include "levin/core/random/seed.h"
#include "levin/core/rehearsal.h"
#include "levin/core/trainer.h"

namespace levin::cli {

namespace {

/// "run.yaml, --trainer.max_epochs=2": what the configuration was made of, in order.
std::string sources_text(const CommandLine& line) {
  return join(line.sources, ", ", [](const ConfigSource& source) {
    const auto* file = std::get_if<ConfigFile>(&source);
    return one_line(file != nullptr ? file->path : std::get<Override>(source).written());
  });
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
  options.logger = false;
  options.profiler = {};
  options.enable_checkpointing = false;
  options.enable_model_summary = false;
  options.enable_progress_bar = false;
  options.num_sanity_val_steps = 0;
  options.min_epochs.reset();
  options.min_steps.reset();
}

/// Makes the Trainer (which starts the other ranks), the module and its data, and calls the entry point. Ranks: all.
void run_config(const CommandLine& line, const RunConfig& config) {
  const std::string& command = line.command;
  if (config.seed_everything.value) seed_everything(static_cast<std::uint64_t>(*config.seed_everything.value));
  TrainerOptions trainer_options = config.trainer;
  if (command == "predict" && !trainer_options.enable_prediction_writer) trainer_options.enable_prediction_writer = true;
  if (command == "check") make_check(trainer_options);
  Trainer trainer(trainer_options);
  rank_zero_info("configuration: ", sources_text(line));
  for (const std::string& difference : different_shared_options(config.model.init_args(), config.data.init_args())) {
    rank_zero_info(difference);
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
  trainer.on_log_dir([complete = write_options(config), names_run](const auto& folder, const auto& checkpoint) mutable {
    if (names_run && !checkpoint.empty())
      complete["ckpt_path"] = std::filesystem::absolute(checkpoint).lexically_normal().string();
    save_config(complete, folder);
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
                           .return_predictions = false,
                           .resume_command = how_to_resume};
  if (command == "check") trainer.stop("levin check trains nothing");
  if (command == "fit" || command == "check") data ? trainer.fit(*module, *data, options) : trainer.fit(*module, options);
  if (command == "validate") data ? trainer.validate(*module, *data, options) : trainer.validate(*module, {}, options);
  if (command == "test") data ? trainer.test(*module, *data, options) : trainer.test(*module, {}, options);
  if (command == "predict") data ? trainer.predict(*module, *data, options) : trainer.predict(*module, {}, options);
}

}  // namespace

void override_optimizers(Trainer& trainer, const RunConfig& config) {
  const auto& [optimizer, groups] = config.optimizer;
  if (optimizer.empty()) return;
  Value settings = write_options(config.lr_scheduler.settings);
  settings.set_mark(config.lr_scheduler.component.class_path().mark());
  const auto factory =
      groups.empty() ? optimizer.get() : grouped_optimizer_factory(optimizer.class_path(), optimizer.init_args(), groups);
  trainer.override_optimizers(factory, config.lr_scheduler.component.get(), settings);
}

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
            require_model(config);
            run_config(line, config);
            return 0;
          }};
}

}  // namespace levin::cli
