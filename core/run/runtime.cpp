#include "levin/core/run/runtime.h"

#include <algorithm>

#include "levin/core/console/rank_messages.h"
#include "levin/core/error.h"
#include "levin/core/run/announcements.h"
#include "levin/core/run/signals.h"
#include "levin/core/run/trainer_parts.h"

namespace levin {

namespace {

/// The console's settings, loggers and callbacks, from the options.
void make_parts(Trainer::Runtime& runtime) {
  const TrainerOptions& options = runtime.options;
  ConsoleOptions console;
  console.level = options.log_level;
  console.rank = runtime.strategy->rank();
  console.world_size = runtime.strategy->world_size();
  console.log_file = options.log_file;
  Console::instance().configure(console);
  announce_build(*runtime.strategy);
  announce_option_rules(options);
  runtime.loggers = make_loggers(options);
  runtime.configured_callbacks = make_callbacks(options);
  runtime.callbacks = in_hook_order(runtime.configured_callbacks);
}

}  // namespace

Trainer::Runtime::Runtime(Trainer& owner, TrainerOptions given)
    : trainer(owner),
      limits_given(given.max_epochs || given.max_steps >= 0 || given.max_time || given.fast_dev_run),
      options(apply_option_rules(std::move(given))) {
  state.accumulate_grad_batches = options.accumulate_grad_batches;
  strategy = make_strategy(options);
  try {
    make_parts(*this);
  } catch (const std::exception&) {
    strategy->report_failure({Stage::kTrain, Hook::kNone, -1, -1}, std::current_exception());
    if (const auto consequence = strategy->failure_elsewhere()) throw DesyncError(*consequence);
    throw;
  }
}

void Trainer::Runtime::start_metrics() {
  MetricStore::Options store_options;
  store_options.strict_logging = options.strict_logging;
  store_options.warn = [](const std::string& message) { rank_zero_warn(message); };
  metrics = std::make_unique<MetricStore>(strategy->control_group(), std::move(store_options));
}

Votes Trainer::Runtime::votes() const {
  Votes mine;
  mine.stop = state.stop_wish;
  mine.end_epoch = state.skip_epoch_wish;
  mine.has_next = state.has_next_batch;
  mine.signal = SignalScope::received();
  return mine;
}

Votes Trainer::Runtime::adopt(const std::vector<Votes>& by_rank) {
  const Votes merged = merge(by_rank);
  state.stop_agreed = merged.stop;
  if (merged.stop) {
    const auto first = std::find_if(by_rank.begin(), by_rank.end(), [](const Votes& votes) { return votes.stop; });
    state.stopping_rank = static_cast<int>(first - by_rank.begin());
  }
  if (merged.signal != 0) state.signal_agreed = merged.signal;
  return merged;
}

BoundaryOutcome Trainer::Runtime::meet(BoundaryKind kind, const BoundaryWords& words) {
  // Every rank reaches this because each caller says why, above its call.
  BoundaryOutcome outcome = metrics->meet({kind, state.stage, state.epoch, state.global_step}, votes(), words);
  adopt(outcome.rank_votes);
  return outcome;
}

}  // namespace levin
