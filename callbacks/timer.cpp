#include "levin/callbacks/timer.h"

#include <cstddef>
#include <string>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/console/terminal.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin {

LEVIN_REGISTER_CALLBACK(Timer, "Measure time, and stop training after a given time");

void TimerOptions::declare(OptionList<TimerOptions>& options) {
  options.add(&TimerOptions::duration, "Training time after which to stop, DD:HH:MM:SS; null: only measure");
  options.add(&TimerOptions::interval, "Check the limit after each step or each epoch");
  options.add(&TimerOptions::verbose, "Say when the limit is reached");
}

double Timer::time_elapsed(Stage stage) const {
  const Span& measured = spans_[static_cast<std::size_t>(stage)];
  const double earlier = stage == Stage::kTrain ? earlier_training_ : 0.0;
  if (!measured.start) return earlier;
  return measured.end.value_or(steady_seconds()) - *measured.start + earlier;
}

std::optional<double> Timer::time_remaining() const {
  if (!options_.duration) return std::nullopt;
  return options_.duration->count() - time_elapsed(Stage::kTrain);
}

Value Timer::state_dict() const {
  Value elapsed(Value::Map{});
  for (std::size_t index = 0; index < spans_.size(); ++index) {
    const auto stage = static_cast<Stage>(index);
    elapsed[stage_name(stage)] = time_elapsed(stage);
  }
  Value state(Value::Map{});
  state["time_elapsed"] = std::move(elapsed);
  return state;
}

void Timer::load_state_dict(const Value& state) {
  const Value* elapsed = state.find("time_elapsed");
  const Value* training = elapsed == nullptr ? nullptr : elapsed->find(stage_name(Stage::kTrain));
  earlier_training_ = training == nullptr ? 0.0 : training->as_double();
}

void Timer::begin(Stage stage) { spans_[static_cast<std::size_t>(stage)] = {steady_seconds(), std::nullopt}; }
void Timer::end(Stage stage) { spans_[static_cast<std::size_t>(stage)].end = steady_seconds(); }

void Timer::check(Trainer& trainer) {
  if (!options_.duration || !trainer.is_global_zero() || *time_remaining() > 0) return;
  const std::string reason = format("Time limit reached after {} of training", duration_text(time_elapsed(Stage::kTrain)));
  trainer.stop(reason);
  if (options_.verbose && !std::exchange(reported_, true)) rank_zero_info(reason + ". Training stops.");
}

// A state whose time was up already stops the run before it trains.
void Timer::on_fit_start(Trainer& trainer, Module&) {
  reported_ = false;
  check(trainer);
}
void Timer::on_train_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t) {
  if (options_.interval == Interval::kStep) check(trainer);
}
void Timer::on_train_epoch_end(Trainer& trainer, Module&) {
  if (options_.interval == Interval::kEpoch) check(trainer);
}

void Timer::on_train_start(Trainer&, Module&) { begin(Stage::kTrain); }
void Timer::on_train_end(Trainer&, Module&) { end(Stage::kTrain); }
void Timer::on_validation_start(Trainer& trainer, Module&) { begin(trainer.stage()); }
void Timer::on_validation_end(Trainer& trainer, Module&) { end(trainer.stage()); }
void Timer::on_test_start(Trainer&, Module&) { begin(Stage::kTest); }
void Timer::on_test_end(Trainer&, Module&) { end(Stage::kTest); }

}  // namespace levin
