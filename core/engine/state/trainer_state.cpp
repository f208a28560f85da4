#include "levin/core/engine/state/trainer_state.h"

#include "levin/core/console/console.h"

namespace levin {

namespace {

std::unique_ptr<MetricStore> make_metrics(const RunSetup& setup) {
  MetricStore::Options options;
  options.strict_logging = setup.options.strict_logging;
  options.warn = [](const std::string& message) { rank_zero_warn(message); };
  return std::make_unique<MetricStore>(setup.strategy->control_group(), std::move(options));
}

}  // namespace

TrainerState::TrainerState(Trainer& owner, TrainerOptions options)
    : trainer(owner), setup(std::move(options)), metrics(make_metrics(setup)) {
  accumulation.batches = setup.options.accumulate_grad_batches;
  parts.callbacks = in_hook_order(setup.callbacks);
}

}  // namespace levin
