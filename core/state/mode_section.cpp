#include "levin/core/state/mode_section.h"

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "levin/core/state/trainer_state.h"

namespace levin {

namespace {

constexpr std::string_view kParameters = "trained_parameters";
constexpr const char* kInEvaluation = "in_evaluation";

}  // namespace

std::shared_ptr<void> ModeSection::hold(TrainerState& run) {
  return held([modes = ModuleModes(run.module())] { modes.restore(); });
}

void ModeSection::begin(TrainerState& run, Place) {
  const auto& after = run.modes_after_evaluation;
  modes_ = after != nullptr ? after : std::make_shared<const ModuleModes>(run.module());
}

void ModeSection::save(TrainerState& run, Checkpoint& checkpoint) {
  // Before training, a resumed run sets its modes itself.
  if (run.resume.position.place == Place::kTrainStart) return;
  const std::vector<std::string> names = modes_->in_evaluation();
  checkpoint.manifest[kParameters][kInEvaluation] = Value::List(names.begin(), names.end());
}

void ModeSection::load(TrainerState&, const Checkpoint& checkpoint) {
  loaded_ = {};
  const Value* const parameters = checkpoint.manifest.find(kParameters);
  const Value* const names = parameters == nullptr ? nullptr : parameters->find(kInEvaluation);
  if (names != nullptr) loaded_ = *names;
}

void ModeSection::restore(TrainerState& run, Moment moment) {
  if (moment != Moment::kPlace || loaded_.is_null()) return;
  std::set<std::string> names;
  for (const Value& name : loaded_.as_list()) names.insert(name.as_string());
  set_modes(run.module(), names);
}

}  // namespace levin
