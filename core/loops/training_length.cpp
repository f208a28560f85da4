#include "levin/core/loops/training_length.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace levin {
namespace {

std::optional<std::int64_t> smaller(std::int64_t number, const std::optional<std::int64_t>& limit) {
  return limit ? std::min(number, *limit) : number;
}

}  // namespace

TrainingLength::TrainingLength(const TrainerOptions& options, std::int64_t accumulate_grad_batches,
                               std::function<std::int64_t()> epoch_batches)
    : accumulate_(accumulate_grad_batches), epoch_batches_(std::move(epoch_batches)) {
  // No epochs are one, as in Lightning: what divides by the length needs no special case.
  if (options.max_epochs.value_or(-1) >= 0) max_epochs_ = std::max<std::int64_t>(*options.max_epochs, 1);
  if (options.max_steps >= 0) max_steps_ = options.max_steps;
}

std::int64_t TrainingLength::optimizer_steps_in(std::int64_t batches) const {
  return (batches + accumulate_ - 1) / accumulate_;
}

std::optional<std::int64_t> TrainingLength::optimizer_steps() const {
  if (!max_epochs_) return max_steps_;
  const std::int64_t batches = epoch_batches_();
  return batches < 0 ? max_steps_ : smaller(optimizer_steps_in(batches) * *max_epochs_, max_steps_);
}

std::optional<std::int64_t> TrainingLength::epochs() const {
  if (!max_steps_) return max_epochs_;
  const std::int64_t batches = epoch_batches_();
  if (batches <= 0) return max_epochs_;
  const std::int64_t steps = optimizer_steps_in(batches);
  return smaller(std::max<std::int64_t>((*max_steps_ + steps - 1) / steps, 1), max_epochs_);
}

std::int64_t TrainingLength::schedule_steps_in(std::int64_t batches, std::int64_t frequency) const {
  // A window ends after every accumulate-th batch and with the last one; a schedule steps where the batch's number is a
  // multiple of its frequency.
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
  // Epochs of unknown length begin to count anew somewhere: one long epoch has no fewer steps.
  if (batches <= 0) return schedule_steps_in(*steps * accumulate_, frequency);
  const std::int64_t whole_epochs = *steps / optimizer_steps_in(batches);
  const std::int64_t steps_left = *steps % optimizer_steps_in(batches);
  return whole_epochs * schedule_steps_in(batches, frequency) + schedule_steps_in(steps_left * accumulate_, frequency);
}

}  // namespace levin
