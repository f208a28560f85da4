#include "levin/cli/run.h"

#include <filesystem>
#include <memory>

#include "levin/cli/config_file.h"
#include "levin/cli/load_config.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/console/text.h"
#include "levin/core/data_module.h"
#include "levin/core/module.h"
#include "levin/core/seed.h"
#include "levin/core/trainer.h"

namespace levin::cli {

namespace {

/// "run.yaml, --trainer.max_epochs=2": what the configuration was made of, in order.
std::string sources_text(const CommandLine& line) {
  std::string text;
  for (const ConfigSource& source : line.sources) {
    if (!text.empty()) text += ", ";
    if (const auto* file = std::get_if<ConfigFile>(&source)) {
      text += one_line(file->path);
    } else {
      text += one_line(std::get<Override>(source).written());
    }
  }
  return text;
}

}  // namespace

void run_command(const CommandLine& line, const RunConfig& config) {
  const std::string& command = line.command;
  if (config.seed_everything.value) seed_everything(static_cast<std::uint64_t>(*config.seed_everything.value));
  Trainer trainer(config.trainer);
  rank_zero_info("configuration: ", sources_text(line));
  trainer.on_log_dir(
      [complete = write_options(config)](const std::filesystem::path& folder) { save_config(complete, folder); });
  const std::shared_ptr<Module> module = config.model.get();
  const std::shared_ptr<DataModule> data = config.data.get();
  if (!config.optimizer.empty() || !config.lr_scheduler.scheduler.empty()) {
    trainer.override_optimizers(config.optimizer.get(), config.lr_scheduler.scheduler.get(),
                                write_options(config.lr_scheduler.settings));
  }
  RunOptions options;
  options.ckpt_path = config.ckpt_path.value;
  if (command == "fit") data ? trainer.fit(*module, *data, options) : trainer.fit(*module, options);
  if (command == "validate") data ? trainer.validate(*module, *data, options) : trainer.validate(*module, {}, options);
  if (command == "test") data ? trainer.test(*module, *data, options) : trainer.test(*module, {}, options);
  if (command == "predict") data ? trainer.predict(*module, *data, options) : trainer.predict(*module, {}, options);
}

}  // namespace levin::cli
