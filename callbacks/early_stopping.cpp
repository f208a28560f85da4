#include "levin/callbacks/early_stopping.h"

#include <cmath>
#include <limits>
#include <utility>

#include "levin/callbacks/monitoring.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/trainer.h"

namespace levin {

LEVIN_REGISTER_CALLBACK(EarlyStopping, "Stop training when a metric no longer improves");

void EarlyStoppingOptions::declare(OptionList<EarlyStoppingOptions>& options) {
  using O = EarlyStoppingOptions;
  options.add(&O::monitor, "Metric to watch").required().not_empty();
  options.add(&O::min_delta, "A change must be larger than this to count as an improvement").min(0.0);
  options.add(&O::patience, "Checks without improvement after which training stops")
      .min(0)
      .instead("a run without EarlyStopping stops for no metric");
  options.add(&O::verbose, "Say when the metric improves and why training stops");
  options.add(&O::mode, "Whether the metric should become small or large");
  options.add(&O::strict, "A metric that was not logged is an error; false: the check is skipped");
  options.add(&O::check_finite, "Stop when the metric is NaN or infinite");
  options.add(&O::stopping_threshold, "Stop as soon as the metric is better than this");
  options.add(&O::divergence_threshold, "Stop as soon as the metric is worse than this");
  options.add(&O::check_on_train_epoch_end,
              "Check when a training epoch ends; false: when validation ends; null: by the validation interval");
  options.add(&O::log_rank_zero_only, "Print verbose lines on rank 0 only");
  options.rule({"monitor"}, [](const O& stopping) {
    return detail::is_counter(stopping.monitor)
               ? "step and epoch grow however training goes, so they cannot end it: use max_steps, "
                 "max_epochs or max_time, and keep the newest checkpoints with ModelCheckpoint's monitor"
               : "";
  });
  options.rule({"stopping_threshold", "divergence_threshold"}, [](const O& stopping) {
    if (!stopping.stopping_threshold || !stopping.divergence_threshold) return "";
    const double reach = *stopping.divergence_threshold - *stopping.stopping_threshold;
    return (stopping.mode == MonitorMode::kMin ? reach : -reach) < 0
               ? "divergence_threshold is better than stopping_threshold: every value would stop the training"
               : "";
  });
}

EarlyStopping::EarlyStopping(Options options) : WithOptions("EarlyStopping", std::move(options)) {
  state_.best_score = detail::worst_score(options_.mode);
  state_.patience = options_.patience;
}

std::string EarlyStopping::state_key() const {
  return detail::state_key_of("EarlyStopping", {{"monitor", options_.monitor}, {"mode", choice_name(options_.mode)}});
}

Value EarlyStopping::state_dict() const { return write_options(state_); }

void EarlyStopping::load_state_dict(const Value& state) {
  *this = EarlyStopping(options_);
  detail::read_state(state, state_);
  // The state has it for Lightning, which resumes with that one; here the options count.
  state_.patience = options_.patience;
  // A user who gives it more patience wants to resume.
  const bool waits_longer = state_.wait_count < options_.patience;
  if (stopping_reason() == EarlyStoppingReason::kPatienceExhausted && waits_longer) state_.asked_to_stop = false;
}

void EarlyStopping::on_fit_start(Trainer& trainer, Module&) {
  detail::warn_of_mode("EarlyStopping", options_.monitor, options_.mode);
  if (state_.asked_to_stop && !trainer.options().fast_dev_run) trainer.stop(stopping_reason_message());
}

void EarlyStopping::on_train_epoch_end(Trainer& trainer, Module&) {
  if (trainer.epoch_is_unfinished()) return;
  if (detail::looks_at_epoch_end(trainer, options_.check_on_train_epoch_end)) check(trainer);
}

void EarlyStopping::on_validation_end(Trainer& trainer, Module&) {
  if (detail::before_training(trainer)) return detail::warn_of_monitor(trainer, "EarlyStopping", options_.monitor);
  if (!trainer.fitting() || trainer.epoch_is_unfinished()) return;
  if (!detail::looks_at_epoch_end(trainer, options_.check_on_train_epoch_end)) check(trainer);
}

void EarlyStopping::check(Trainer& trainer) {
  if (trainer.options().fast_dev_run) return;
  const std::optional<double> current = trainer.monitored(options_.monitor);
  if (!current) {
    const std::string problem = format("EarlyStopping watches '{}', which no rank has logged.{}", options_.monitor,
                                       detail::other_monitors(options_.monitor, trainer.callback_metrics()));
    if (options_.strict) throw of_all_ranks(MisuseError(problem));
    if (options_.verbose) rank_zero_warn(problem);
    return;
  }
  const Decision decision = evaluate(*current);
  if (decision.stop) {
    state_.stopped_epoch = trainer.current_epoch();
    state_.asked_to_stop = true;
    trainer.stop(decision.message);
  } else if (state_.asked_to_stop) {
    state_.asked_to_stop = false;
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
  state_.stopping_reason = static_cast<std::int64_t>(reason);
  state_.stopping_reason_message = message;
  return {true, std::move(message)};
}

EarlyStopping::Decision EarlyStopping::evaluate(double current) {
  const std::string& name = options_.monitor;
  const bool minimize = options_.mode == MonitorMode::kMin;
  const std::string is_now = format("{} = {:.9g}", name, current);
  if (options_.check_finite && !std::isfinite(current)) {
    return stop_because(
        EarlyStoppingReason::kNonFiniteMetric,
        format("Monitored metric {} is not finite. Previous best value was {}", is_now, detail::score_text(state_.best_score)));
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
  if (improves(current + handicap, state_.best_score)) {
    std::string message = format("Metric {} improved", name);
    double step = std::numeric_limits<double>::infinity();
    if (std::isfinite(state_.best_score)) {
      step = std::abs(state_.best_score - current);
      message += format(" by {} >= min_delta = {:.9g}", detail::score_text(step), options_.min_delta);
    }
    state_.best_score = current;
    state_.wait_count = 0;
    state_.stopping_reason = 0;
    state_.stopping_reason_message.reset();
    return {false, format("{}. New best score: {}", message, detail::score_text(current, step))};
  }
  if (++state_.wait_count < state_.patience) return {};
  return stop_because(EarlyStoppingReason::kPatienceExhausted,
                      format("Monitored metric {} did not improve in the last {} checks. Best score: {}", name,
                             state_.wait_count, detail::score_text(state_.best_score)));
}

}  // namespace levin
