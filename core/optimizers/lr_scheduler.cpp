#include "levin/core/optimizers/lr_scheduler.h"

#include <algorithm>
#include <array>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

ScheduleLength::ScheduleLength(std::function<std::optional<std::int64_t>()> steps, Mark place)
    : steps_(std::move(steps)), place_(std::move(place)) {}

std::int64_t ScheduleLength::unless(const std::optional<std::int64_t>& given, const std::string& class_name,
                                    const std::string& option) const {
  if (given) return *given;
  if (!steps_) {
    throw ConfigError(
        format("{}: {} is not set. It has no default in C++; trainer().estimated_stepping_batches() gives the "
               "optimizer's steps of all of training.",
               class_name, option));
  }
  if (const auto steps = steps_()) return std::max<std::int64_t>(*steps, 1);
  throw ConfigError(place_, format("{}: {} is not set, and the length of training is unknown: neither max_epochs nor max_steps "
                                   "limits it, or the training loader's number of batches is unknown. Set {}.",
                                   class_name, option, option));
}

ScheduleLength ScheduleLength::part(std::int64_t begin, std::optional<std::int64_t> end, const Mark& place) const {
  if (!steps_) return {};
  const auto steps = [all = steps_, begin, end]() -> std::optional<std::int64_t> {
    if (end) return *end - begin;
    const auto known = all();
    return known ? std::optional(*known - begin) : std::nullopt;
  };
  return {steps, place};
}

LrScheduler::~LrScheduler() = default;

void LrScheduler::change_rates(const RateChange& change) {
  static constexpr std::array kRates = {"base_lr", "base_lrs", "_last_lr", "max_lr", "max_lrs", "min_lr", "eta_min", "swa_lr"};
  Value state = state_dict();
  for (const char* name : kRates) {
    Value* const rates = state.find(name);
    if (rates == nullptr) continue;
    if (rates->is_number()) *rates = change(name, 0, rates->as_double());
    if (!rates->is_list()) continue;
    for (std::size_t group = 0; group < rates->size(); ++group) {
      Value& rate = rates->as_list()[group];
      rate = change(name, group, rate.as_double());
    }
  }
  load_state_dict(state);
}

}  // namespace levin
