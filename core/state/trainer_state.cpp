#include "levin/core/state/trainer_state.h"

#include <algorithm>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/metric.h"
#include "levin/core/state/module_attachment.h"
#include "levin/core/state/run_sections.h"

namespace levin {

namespace {

/// The strategy of the run in whose hook this Trainer is made; null outside of hooks.
Strategy* strategy_of_outer_run() {
  TrainerState* const outer = ModuleAttachment::running();
  return outer == nullptr ? nullptr : &outer->strategy();
}

std::unique_ptr<MetricStore> make_metrics(const RunSetup& setup) {
  MetricStore::Options options;
  options.strict_logging = setup.options.strict_logging;
  options.warn = [](const std::string& message) { rank_zero_warn(message); };
  return std::make_unique<MetricStore>(setup.strategy->control_group(), std::move(options));
}

}  // namespace

TrainerState::TrainerState(Trainer& owner, TrainerOptions options)
    : trainer(owner),
      setup(std::move(options), strategy_of_outer_run()),
      metrics(make_metrics(setup)),
      sections(std::make_unique<RunSections>()) {
  accumulation.batches = setup.options.accumulate_grad_batches;
  parts.callbacks = in_hook_order(setup.callbacks);
}

TrainerState::~TrainerState() = default;

}  // namespace levin
