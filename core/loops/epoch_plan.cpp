#include "levin/core/loops/epoch_plan.h"

#include <algorithm>
#include <cmath>

#include "levin/core/base/float_text.h"
#include "levin/core/base/format.h"

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
      " is a share of a loader that does not know its number of batches. Give a number of batches (an int), 0.0 or "
      "1.0.");
}

std::optional<std::int64_t> batch_cap(const std::optional<std::int64_t>& batches, const std::optional<Limit>& limit) {
  if (batches || !limit || limit->is_share()) return batches;
  return limit->batches();
}

ValidationSchedule::ValidationSchedule(const std::optional<CheckInterval>& interval, std::optional<std::int64_t> every_n_epochs,
                                       std::optional<std::int64_t> batches_per_epoch, bool validation_enabled)
    : enabled_(validation_enabled), every_n_epochs_(every_n_epochs) {
  by_time_ = interval && interval->is_time();
  if (by_time_) return;
  const Limit every = interval.value_or(1.0).limit();
  if (!every.is_share()) {
    every_n_batches_ = std::max<std::int64_t>(1, every.batches());
    if (validation_enabled && every_n_epochs && batches_per_epoch && *every_n_batches_ > *batches_per_epoch) {
      throw ConfigError(format(
          "trainer.val_check_interval: {} is more than the {} training batches of an epoch. Set limit_val_batches to 0 for no "
          "validation, or check_val_every_n_epoch to null to count batches across epochs.",
          *every_n_batches_, *batches_per_epoch));
    }
    return;
  }
  if (batches_per_epoch) {
    const double batches = std::floor(static_cast<double>(*batches_per_epoch) * every.share());
    every_n_batches_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(batches));
  } else if (every.share() != 1.0) {
    throw ConfigError(
        "trainer.val_check_interval: " + float_text(every.share()) +
        " is a share of an epoch whose number of batches is not known. Give a number of batches (an int) or 1.0.");
  }
}

bool ValidationSchedule::epoch_enabled(std::int64_t epoch) const {
  return enabled_ && (!every_n_epochs_ || (epoch + 1) % *every_n_epochs_ == 0);
}

bool ValidationSchedule::due(std::int64_t epoch, std::int64_t batch_idx, std::int64_t total_batch_idx,
                             bool is_last_batch) const {
  if (by_time_ || !epoch_enabled(epoch)) return false;
  if (!every_n_batches_) return is_last_batch;
  const std::int64_t current = every_n_epochs_ ? batch_idx : total_batch_idx;
  return (current + 1) % *every_n_batches_ == 0;
}

EpochPlan::EpochPlan(const std::vector<std::int64_t>& rank_batches, bool stop_with_first) {
  const auto [fewest, most] = std::minmax_element(rank_batches.begin(), rank_batches.end());
  known_ = fewest == rank_batches.end() || *fewest >= 0;
  iterations_ = !known_ ? -1 : rank_batches.empty() ? 0 : stop_with_first ? *fewest : *most;
}

}  // namespace levin
