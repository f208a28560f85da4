#include "levin/cli/commands/torch/configured_run.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "levin/cli/config/config_text.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/plugin_loader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/written_files.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/optimizers/parameter_groups.h"
#include "levin/core/random/seed.h"
#include "levin/strategies/launch/rank_start.h"

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

}  // namespace

RunConfig begin_run(const CommandLine& line) {
  if (start_ranks_here()) introduce_rank();
  return load_config(line);
}

void announce(const CommandLine& line, const RunConfig& config) {
  rank_zero_info("configuration: ", sources_text(line));
  for (const std::string& difference : different_shared_options(config.model.init_args(), config.data.init_args())) {
    rank_zero_info(difference);
  }
  if (!config.ignored_settings.lines().empty()) {
    rank_zero_warn("Settings of Lightning without effect in levin: ", join(config.ignored_settings.lines()), ".");
  }
  for (const std::string& plugin : config.plugins) {
    if (check_stamps(plugin).optimized) continue;
    rank_zero_warn(
        format("The plug-in '{}' was compiled without optimization: it may be many times slower. Build it with -O2 "
               "(CMAKE_BUILD_TYPE=Release).",
               plugin));
  }
}

void save_config_of(Trainer& trainer, const RunConfig& config, const std::function<void(const std::filesystem::path&)>& saved) {
  // What best or last is may be another file tomorrow, or seen from another folder.
  const bool names_run = config.ckpt_path.value && !std::filesystem::is_regular_file(*config.ckpt_path.value);
  trainer.on_log_dir([saved, complete = write_options(config), names_run](const auto& folder, const auto& checkpoint) mutable {
    if (names_run && !checkpoint.empty())
      complete["ckpt_path"] = std::filesystem::absolute(checkpoint).lexically_normal().string();
    list_written_files(folder);  // a user's own logger may not have asked for it
    const std::filesystem::path file = save_config(complete, folder);
    if (saved) saved(file);
  });
}

RunOptions run_options(const RunConfig& config) {
  return {.ckpt_path = config.ckpt_path.value,
          .init_from = config.init_from.value,
          .map_location = config.map_location,
          .key = config.key};
}

void leave_out_reports(TrainerOptions& options) {
  options.logger = false;
  options.profiler = {};
  options.enable_checkpointing = options.enable_model_summary = options.enable_progress_bar = false;
}

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

}  // namespace levin::cli
