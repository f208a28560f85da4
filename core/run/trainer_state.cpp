#include "levin/core/run/trainer_state.h"

#include "levin/core/console/console.h"

namespace levin {

TrainerState::TrainerState(Trainer& owner, TrainerOptions options) : trainer(owner), setup(std::move(options)) {
  accumulation.batches = setup.options.accumulate_grad_batches;
  parts.callbacks = in_hook_order(setup.callbacks);
  start_metrics();
}

void TrainerState::start_metrics() {
  MetricStore::Options store_options;
  store_options.strict_logging = setup.options.strict_logging;
  store_options.warn = [](const std::string& message) { rank_zero_warn(message); };
  metrics = std::make_unique<MetricStore>(setup.strategy->control_group(), std::move(store_options));
}

}  // namespace levin
