#include "levin/core/run/epoch_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {

bool takes_batches(const Limit& limit) { return limit.is_share() ? limit.share() > 0.0 : limit.batches() > 0; }

std::optional<std::int64_t> limited_batches(std::optional<std::int64_t> loader_batches, const std::optional<Limit>& limit,
                                            const std::string& option_name) {
  if (!limit) return loader_batches;
  if (loader_batches) return limit->of(*loader_batches, option_name);
  if (!takes_batches(*limit)) return 0;
  if (!limit->is_share() || limit->share() == 1.0) return std::nullopt;
  throw ConfigError(
      "trainer." + option_name + ": " + float_text(limit->share()) +
      " is a share of a loader whose number of batches is unknown. Give a number of batches (an int), 0.0 or 1.0.");
}

std::optional<std::int64_t> batch_cap(const std::optional<std::int64_t>& batches, const std::optional<Limit>& limit) {
  if (batches || !limit || limit->is_share()) return batches;
  return limit->batches();
}

ValidationSchedule::ValidationSchedule(const std::optional<CheckInterval>& interval, std::optional<std::int64_t> every_n_epochs,
                                       std::optional<std::int64_t> batches_per_epoch, bool validation_enabled)
    : enabled_(validation_enabled), every_n_epochs_(every_n_epochs), batches_per_epoch_(batches_per_epoch) {
  by_time_ = interval && interval->is_time();
  if (by_time_) return;
  const Limit every = interval.value_or(1.0).limit();
  if (!every.is_share()) {
    every_n_batches_ = std::max<std::int64_t>(1, every.batches());
    if (validation_enabled && every_n_epochs && batches_per_epoch && *every_n_batches_ > *batches_per_epoch) {
      throw ConfigError(
          format("trainer.val_check_interval: {} is more than the {} training batches of an epoch. Set limit_val_batches to 0 "
                 "for no validation, or check_val_every_n_epoch to null to count batches across epochs.",
                 *every_n_batches_, *batches_per_epoch));
    }
    return;
  }
  if (batches_per_epoch) {
    const double batches = std::floor(static_cast<double>(*batches_per_epoch) * every.share());
    every_n_batches_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(batches));
  } else if (every.share() != 1.0) {
    throw ConfigError("trainer.val_check_interval: " + float_text(every.share()) +
                      " is a share of an epoch whose number of batches is unknown. Give a number of batches (an int) or 1.0.");
  }
}

bool ValidationSchedule::due(std::int64_t epoch, std::int64_t batch_idx, std::int64_t total_batch_idx,
                             bool is_last_batch) const {
  if (by_time_ || !epoch_enabled(epoch)) return false;
  if (!every_n_batches_) return is_last_batch;
  const std::int64_t done = (every_n_epochs_ ? batch_idx : total_batch_idx) + 1;
  if (done % *every_n_batches_ == 0) return true;
  const bool is_cut = is_last_batch && every_n_epochs_ && batches_per_epoch_;
  return is_cut && done / *every_n_batches_ < *batches_per_epoch_ / *every_n_batches_;
}

EpochPlan::EpochPlan(const std::vector<std::int64_t>& rank_batches, bool stop_with_first) {
  if (rank_batches.empty()) return;
  const auto [fewest, most] = std::ranges::minmax(rank_batches);
  iterations_ = stop_with_first || fewest < 0 ? fewest : most;
}

std::string StopConditions::what_holds_it_up() const {
  std::vector<std::string> least;
  const std::int64_t epochs = options_.min_epochs.value_or(0);
  const std::int64_t steps = options_.min_steps.value_or(0);
  if (progress_.epoch < epochs) least.push_back(format("min_epochs={}", epochs));
  if (progress_.global_step < steps) least.push_back(format("min_steps={}", steps));
  return join(least, " and ");
}

std::optional<std::string> StopConditions::reason(const EpochPlan& plan) const {
  if (plan.known() && plan.iterations() == 0) return "no training batches";
  if (stopping()) return wishes_.why_stopping(world_size_);
  if (steps_are_done()) return format("max_steps={} reached", options_.max_steps);
  const std::int64_t max_epochs = options_.max_epochs.value_or(-1);
  if (max_epochs >= 0 && progress_.epoch >= max_epochs) return format("max_epochs={} reached", max_epochs);
  return std::nullopt;
}

TrainingLength::TrainingLength(const TrainerOptions& options, std::int64_t accumulate_grad_batches,
                               std::function<std::int64_t()> epoch_batches)
    : accumulate_(accumulate_grad_batches), epoch_batches_(std::move(epoch_batches)) {
  // No epochs are one, as in Lightning: what divides by the length needs no special case.
  if (options.max_epochs.value_or(-1) >= 0) max_epochs_ = std::max<std::int64_t>(*options.max_epochs, 1);
  if (options.max_steps >= 0) max_steps_ = options.max_steps;
}

std::optional<std::int64_t> TrainingLength::optimizer_steps() const {
  if (!max_epochs_) return max_steps_;
  const std::int64_t batches = epoch_batches_();
  if (batches < 0) return max_steps_;
  const std::int64_t steps = optimizer_steps_in(batches) * *max_epochs_;
  return std::min(steps, max_steps_.value_or(steps));
}

std::optional<std::int64_t> TrainingLength::epochs() const {
  if (!max_steps_) return max_epochs_;
  const std::int64_t batches = epoch_batches_();
  if (batches <= 0) return max_epochs_;
  const std::int64_t steps = optimizer_steps_in(batches);
  const std::int64_t epochs = std::max<std::int64_t>((*max_steps_ + steps - 1) / steps, 1);
  return std::min(epochs, max_epochs_.value_or(epochs));
}

std::int64_t TrainingLength::schedule_steps_in(std::int64_t batches, std::int64_t frequency) const {
  // A window ends after every accumulate-th batch and with the last; a schedule steps where the batch's number is a multiple.
  const bool last_is_short = batches % accumulate_ != 0 && batches % frequency == 0;
  const std::int64_t both = std::max<std::int64_t>(std::lcm(accumulate_, frequency), 1);
  return batches / both + (last_is_short ? 1 : 0);
}

std::optional<std::int64_t> TrainingLength::schedule_steps(Interval interval, std::int64_t frequency) const {
  if (interval == Interval::kEpoch) {
    const auto number = epochs();
    return number ? std::optional(*number / frequency) : std::nullopt;
  }
  if (frequency == 1) return optimizer_steps();
  const auto steps = optimizer_steps();
  if (!steps) return std::nullopt;
  const std::int64_t batches = epoch_batches_();
  // Epochs of unknown length restart the count somewhere: one long epoch does not have fewer steps.
  if (batches <= 0) return schedule_steps_in(*steps * accumulate_, frequency);
  const std::int64_t whole_epochs = *steps / optimizer_steps_in(batches);
  const std::int64_t steps_left = *steps % optimizer_steps_in(batches);
  return whole_epochs * schedule_steps_in(batches, frequency) + schedule_steps_in(steps_left * accumulate_, frequency);
}

}  // namespace levin
