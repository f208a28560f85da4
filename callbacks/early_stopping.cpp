#include "levin/callbacks/early_stopping.h"

#include <cmath>
#include <limits>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/options/registry.h"
#include "levin/core/trainer.h"

namespace levin {

LEVIN_REGISTER_CALLBACK(EarlyStopping, "Stop training when a metric no longer improves");

void EarlyStoppingOptions::declare(OptionList<EarlyStoppingOptions>& options) {
  using O = EarlyStoppingOptions;
  options.add(&O::monitor, "Metric to watch").required().not_empty();
  options.add(&O::min_delta, "A change must be larger than this to count as an improvement").min(0.0);
  options.add(&O::patience, "Checks without improvement after which training stops").min(0);
  options.add(&O::verbose, "Say when the metric improves and why training stops");
  options.add(&O::mode, "Whether the metric should become small or large");
  options.add(&O::strict, "A metric that nobody logged is an error; false: the check is skipped");
  options.add(&O::check_finite, "Stop when the metric is NaN or infinite");
  options.add(&O::stopping_threshold, "Stop as soon as the metric is better than this");
  options.add(&O::divergence_threshold, "Stop as soon as the metric is worse than this");
  options.add(&O::check_on_train_epoch_end,
              "Check when a training epoch ends; false: when validation ends; null: by the validation interval");
  options.add(&O::log_rank_zero_only, "Print verbose lines on rank 0 only");
  options.rule({"stopping_threshold", "divergence_threshold"}, [](const O& stopping) {
    if (!stopping.stopping_threshold || !stopping.divergence_threshold) return "";
    const double reach = *stopping.divergence_threshold - *stopping.stopping_threshold;
    return (stopping.mode == MonitorMode::kMin ? reach : -reach) < 0
               ? "divergence_threshold is better than stopping_threshold: every value would stop the training"
               : "";
  });
}

EarlyStopping::EarlyStopping(Options options)
    : WithOptions("EarlyStopping", std::move(options)),
      best_score_((options_.mode == MonitorMode::kMin ? 1 : -1) * std::numeric_limits<double>::infinity()) {}

std::string EarlyStopping::state_key() const {
  return detail::state_key_of("EarlyStopping", {{"monitor", options_.monitor}, {"mode", choice_name(options_.mode)}});
}

Value EarlyStopping::state_dict() const {
  Value state(Value::Map{});
  state["wait_count"] = wait_count_;
  state["stopped_epoch"] = stopped_epoch_;
  state["best_score"] = best_score_;
  state["patience"] = options_.patience;
  state["stopping_reason"] = static_cast<std::int64_t>(reason_);
  state["stopping_reason_message"] = reason_message_.empty() ? Value() : Value(reason_message_);
  state["asked_to_stop"] = asked_to_stop_;
  return state;
}

void EarlyStopping::load_state_dict(const Value& state) {
  const std::int64_t configured_patience = options_.patience;
  wait_count_ = state.at("wait_count").as_int();
  stopped_epoch_ = state.at("stopped_epoch").as_int();
  best_score_ = state.at("best_score").as_double();
  options_.patience = state.at("patience").as_int();
  const Value* reason = state.find("stopping_reason");
  reason_ = reason == nullptr ? EarlyStoppingReason::kNotStopped : static_cast<EarlyStoppingReason>(reason->as_int());
  const Value* message = state.find("stopping_reason_message");
  reason_message_ = message == nullptr || message->is_null() ? "" : message->as_string();
  const Value* asked = state.find("asked_to_stop");
  // Who gives it more patience wants to go on.
  const bool patient = reason_ == EarlyStoppingReason::kPatienceExhausted && wait_count_ < configured_patience;
  asked_to_stop_ = asked != nullptr && asked->as_bool() && !patient;
  if (patient) options_.patience = configured_patience;
}

void EarlyStopping::on_fit_start(Trainer& trainer, Module&) {
  detail::warn_of_mode("EarlyStopping", options_.monitor, options_.mode);
  if (asked_to_stop_ && !trainer.options().fast_dev_run) trainer.stop(reason_message_);
}

bool EarlyStopping::checks_on_train_epoch_end(const Trainer& trainer) const {
  if (options_.check_on_train_epoch_end) return *options_.check_on_train_epoch_end;
  return !trainer.validates() || detail::validates_once_each_epoch(trainer.options());
}

void EarlyStopping::on_train_epoch_end(Trainer& trainer, Module&) {
  if (checks_on_train_epoch_end(trainer)) check(trainer);
}

void EarlyStopping::on_validation_end(Trainer& trainer, Module&) {
  if (detail::before_training(trainer)) return detail::warn_of_monitor(trainer, "EarlyStopping", options_.monitor);
  if (trainer.fitting() && !checks_on_train_epoch_end(trainer)) check(trainer);
}

void EarlyStopping::check(Trainer& trainer) {
  if (trainer.options().fast_dev_run) return;
  const std::optional<double> current = trainer.monitored(options_.monitor);
  if (!current) {
    const std::string problem = format("EarlyStopping watches '{}', which no rank has logged.{}", options_.monitor,
                                       detail::other_monitors(options_.monitor, trainer.callback_metrics()));
    if (options_.strict) throw MisuseError(problem);
    if (options_.verbose) rank_zero_warn(problem);
    return;
  }
  const Decision decision = evaluate(*current);
  if (decision.stop) {
    stopped_epoch_ = trainer.current_epoch();
    asked_to_stop_ = true;
    trainer.stop(decision.message);
  } else if (asked_to_stop_) {
    asked_to_stop_ = false;
    trainer.clear_stop();
  }
  if (options_.verbose && !decision.message.empty()) {
    options_.log_rank_zero_only ? rank_zero_info(decision.message) : rank_info(decision.message);
  }
}

bool EarlyStopping::improves(double current, double than) const {
  return options_.mode == MonitorMode::kMin ? current < than : current > than;
}

EarlyStopping::Decision EarlyStopping::stop_because(EarlyStoppingReason reason, std::string message) {
  reason_ = reason;
  reason_message_ = message;
  return {true, std::move(message)};
}

EarlyStopping::Decision EarlyStopping::evaluate(double current) {
  const std::string& name = options_.monitor;
  const bool minimize = options_.mode == MonitorMode::kMin;
  const std::string is_now = format("{} = {:.9g}", name, current);
  if (options_.check_finite && !std::isfinite(current)) {
    return stop_because(EarlyStoppingReason::kNonFiniteMetric,
                        format("Monitored metric {} is not finite. Previous best value was {:.3f}", is_now, best_score_));
  }
  if (options_.stopping_threshold && improves(current, *options_.stopping_threshold)) {
    return stop_because(
        EarlyStoppingReason::kStoppingThreshold,
        format("Stopping threshold reached: {}{}{:.9g}", is_now, minimize ? " < " : " > ", *options_.stopping_threshold));
  }
  if (options_.divergence_threshold && improves(-current, -*options_.divergence_threshold)) {
    return stop_because(
        EarlyStoppingReason::kDivergenceThreshold,
        format("Divergence threshold reached: {}{}{:.9g}", is_now, minimize ? " > " : " < ", *options_.divergence_threshold));
  }
  const double handicap = minimize ? options_.min_delta : -options_.min_delta;
  if (improves(current + handicap, best_score_)) {
    std::string message = format("Metric {} improved", name);
    if (std::isfinite(best_score_)) {
      message += format(" by {:.3f} >= min_delta = {:.9g}", std::abs(best_score_ - current), options_.min_delta);
    }
    best_score_ = current;
    wait_count_ = 0;
    reason_ = EarlyStoppingReason::kNotStopped;
    reason_message_.clear();
    return {false, format("{}. New best score: {:.3f}", message, current)};
  }
  if (++wait_count_ < options_.patience) return {};
  return stop_because(
      EarlyStoppingReason::kPatienceExhausted,
      format("Monitored metric {} did not improve in the last {} checks. Best score: {:.3f}", name, wait_count_, best_score_));
}

}  // namespace levin
