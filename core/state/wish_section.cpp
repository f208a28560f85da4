#include "levin/core/state/wish_section.h"

#include "levin/core/state/checkpoint_values.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

std::shared_ptr<void> WishSection::hold(TrainerState& run) {
  return held([&run, skips = run.wishes.skips_epoch()] { run.wishes.skip_epoch(skips); });
}

void WishSection::begin(TrainerState& run, Place) {
  skip_epoch_ = run.wishes.skips_epoch();
  validate_ = run.wishes.wants_validation();
}

void WishSection::save(TrainerState& run, Checkpoint& checkpoint) {
  checkpoint.manifest["loops"]["stop_agreed"] = run.wishes.stop_agreed() && !run.resume.position.has_stopped();
}

void WishSection::save_own(TrainerState& run, RankState& state) {
  const LoopPosition& position = run.resume.position;
  // A wish to stop that has taken effect does not count: to train further, a user changes what stopped the run.
  state.manifest["stop"] = run.wishes.stop_asked() && !position.has_stopped() ? Value(run.wishes.stop_reason()) : Value();
  state.manifest["has_stopped"] = (run.wishes.stop_asked() || run.wishes.stop_agreed()) && position.has_stopped();
  state.manifest["skip_epoch"] = skip_epoch_ && !position.is_between_epochs();
  state.manifest["validate"] = validate_;
}

void WishSection::load(TrainerState&, const Checkpoint& checkpoint) {
  loaded_ = {};
  loaded_.stop_agreed = checkpoint.manifest.at("loops").at("stop_agreed").as_bool();
  for (int rank = 0;; ++rank) {
    const Value* const values = values_of_rank(checkpoint, rank);
    if (values == nullptr) return;
    // Checkpoints of levin 0.1 do not say.
    const Value* const has_stopped = values->find("has_stopped");
    loaded_.has_stopped |= has_stopped != nullptr && has_stopped->as_bool();
  }
}

void WishSection::load_own(TrainerState&, const Checkpoint&, int, const Value& values) {
  if (const Value& stop = values.at("stop"); !stop.is_null()) {
    loaded_.stop = true;
    loaded_.stop_reason = stop.as_string();
  }
  loaded_.skip_epoch |= values.at("skip_epoch").as_bool();
  loaded_.validate |= values.at("validate").as_bool();
}

void WishSection::restore(TrainerState& run, Moment moment) {
  if (moment != Moment::kPlace) return;
  if (loaded_.stop) run.wishes.ask_to_stop(loaded_.stop_reason);
  if (loaded_.stop_agreed) run.wishes.agree_to_stop();
  run.wishes.skip_epoch(loaded_.skip_epoch);
  if (loaded_.validate) run.wishes.ask(RunCommand::kValidate);
}

}  // namespace levin
