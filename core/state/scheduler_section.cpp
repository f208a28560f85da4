#include "levin/core/state/scheduler_section.h"

#include <utility>

#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

/// A scheduler's state, with PyTorch's values where PyTorch has them: keys are PyTorch's, but some are missing there.
Value state_of_torch(Value own, const Value& saved) {
  if (own.is_map() && saved.is_map()) {
    for (auto& [name, value] : own.as_map()) {
      if (const Value* other = saved.find(name)) value = state_of_torch(std::move(value), *other);
    }
    return own;
  }
  const bool has_members =
      own.is_list() && saved.is_list() && own.size() == saved.size() && own.size() > 0 && own.as_list().front().is_map();
  if (has_members) {
    for (std::size_t i = 0; i < own.size(); ++i) own.as_list()[i] = state_of_torch(own.as_list()[i], saved.as_list()[i]);
    return own;
  }
  return saved.is_null() ? own : saved;
}

}  // namespace

void SchedulerSection::begin(TrainerState& run, Place place) {
  states_.reset();
  if (has_hooks_of_start_or_end(place)) states_ = states_of(run.parts.schedulers);
}

void SchedulerSection::save(TrainerState& run, Checkpoint& checkpoint) {
  checkpoint.manifest["lr_schedulers"] = states_ ? *states_ : states_of(run.parts.schedulers);
}

void SchedulerSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  const Value& states = checkpoint.manifest.at("lr_schedulers");
  check_number(states, "learning-rate schedulers", run.parts.schedulers.size());
  for (std::size_t index = 0; index < run.parts.schedulers.size(); ++index) {
    LrScheduler& scheduler = *run.parts.schedulers[index].scheduler;
    const Value& saved = states.as_list()[index];
    scheduler.load_state_dict(is_of_levin(checkpoint) ? saved : state_of_torch(scheduler.state_dict(), saved));
  }
}

void ScalerSection::save(TrainerState& run, Checkpoint& checkpoint) {
  if (Value scaler = run.scaler.state(); !scaler.is_null()) checkpoint.manifest["gradient_scaler"] = std::move(scaler);
}

void ScalerSection::load(TrainerState& run, const Checkpoint& checkpoint) {
  if (const Value* scaler = checkpoint.manifest.find("gradient_scaler")) run.scaler.load_state(*scaler);
}

}  // namespace levin
