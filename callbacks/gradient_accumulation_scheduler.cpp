#include "levin/callbacks/gradient_accumulation_scheduler.h"

#include <charconv>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin {

AccumulationSchedule OptionType<AccumulationSchedule>::read(const Value& value) {
  if (!value.is_map()) detail::throw_wrong_type(value, name());
  AccumulationSchedule schedule;
  for (const auto& [key, batches] : value.as_map()) {
    std::int64_t epoch = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), epoch);
    if (error != std::errc() || end != key.data() + key.size()) {
      throw ConfigError(batches.mark(),
                        quoted_text(key) + " is not an epoch: the keys of scheduling are numbers, as in {0: 1, 4: 8}.");
    }
    if (epoch < 0) throw ConfigError(batches.mark(), format("epoch {} is below 0; epochs count from 0", key));
    schedule[epoch] = OptionType<std::int64_t>::read(batches);
    if (schedule[epoch] < 1)
      throw ConfigError(batches.mark(), format("epoch {} accumulates {} batches; 1 is the least", key, schedule[epoch]));
  }
  return schedule;
}

Value OptionType<AccumulationSchedule>::write(const AccumulationSchedule& schedule) {
  Value map(Value::Map{});
  for (const auto& [epoch, batches] : schedule) map[std::to_string(epoch)] = batches;
  return map;
}

Value OptionType<AccumulationSchedule>::schema() {
  Value map = detail::schema_of_type("object");
  map["propertyNames"]["pattern"] = "^[0-9]+$";
  Value& batches = map["additionalProperties"] = detail::schema_of_type("integer");
  batches["minimum"] = 1;
  return map;
}

LEVIN_REGISTER_CALLBACK(GradientAccumulationScheduler, "Change accumulate_grad_batches at given epochs");

void GradientAccumulationSchedulerOptions::declare(OptionList<GradientAccumulationSchedulerOptions>& options) {
  options
      .add(&GradientAccumulationSchedulerOptions::scheduling,
           "From each of these epochs on, so many batches make one step: {0: 1, 4: 8}")
      .required()
      .not_empty();
}

GradientAccumulationScheduler::GradientAccumulationScheduler(Options options)
    : WithOptions("GradientAccumulationScheduler", std::move(options)) {
  options_.scheduling.try_emplace(0, 1);
}

std::int64_t GradientAccumulationScheduler::accumulate_grad_batches(std::int64_t epoch) const {
  return std::prev(options_.scheduling.upper_bound(epoch))->second;
}

void GradientAccumulationScheduler::setup(Trainer& trainer, Module&, Stage stage) {
  if (stage == Stage::kTrain) trainer.set_accumulate_grad_batches(options_.scheduling.at(0));
}

void GradientAccumulationScheduler::on_train_start(Trainer& trainer, Module& module) {
  if (!module.automatic_optimization()) {
    throw MisuseError(
        "GradientAccumulationScheduler cannot accumulate for a module that optimizes manually. Remove the callback, or let "
        "the Trainer optimize.");
  }
  if (trainer.options().accumulate_grad_batches != 1) {
    throw MisuseError(
        format("The Trainer has accumulate_grad_batches: {} and a GradientAccumulationScheduler. Remove one of them.",
               trainer.options().accumulate_grad_batches));
  }
}

void GradientAccumulationScheduler::on_train_epoch_start(Trainer& trainer, Module&) {
  trainer.set_accumulate_grad_batches(accumulate_grad_batches(trainer.current_epoch()));
}

}  // namespace levin
