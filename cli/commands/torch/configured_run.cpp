#include "levin/cli/commands/torch/configured_run.h"

#include <cstdint>

#include "levin/cli/config/load_config.h"
#include "levin/core/optimizers/optimizer_factory.h"
#include "levin/core/optimizers/parameter_groups.h"
#include "levin/core/random/seed.h"
#include "levin/core/trainer.h"
#include "levin/strategies/launch/rank_start.h"

namespace levin::cli {

RunConfig begin_run(const CommandLine& line) {
  if (start_ranks_here()) introduce_rank();
  return load_config(line);
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
