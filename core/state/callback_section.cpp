#include "levin/core/state/callback_section.h"

#include <set>
#include <string>
#include <typeinfo>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/console/console.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

void CallbackSection::save(TrainerState& run, Checkpoint& checkpoint) {
  const auto scope = run.hooks.enter(Hook::kStateDict);
  checkpoint.manifest["callbacks"] = states_of(run.parts.callbacks);
}

void CallbackSection::load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) {
  if (step != LoadStep::kModule) return;
  const auto scope = run.hooks.enter(Hook::kLoadStateDict);
  run.hooks.callbacks(Hook::kOnLoadCheckpoint, &Callback::on_load_checkpoint, checkpoint);
  // The state of callbacks belongs to training: an evaluation does not need it, and must not warn about it.
  const Value* states = run.progress.fitting ? checkpoint.manifest.find("callbacks") : nullptr;
  if (states == nullptr || !states->is_map()) return;
  std::set<std::string> left;
  for (const auto& [key, state] : states->as_map()) left.insert(key);
  for (const auto& callback : run.parts.callbacks) {
    const Value* const saved = states->find(callback->state_key());
    if (saved == nullptr) continue;
    callback->load_state_dict(*saved);
    left.erase(callback->state_key());
  }
  if (left.empty()) return;
  rank_zero_warn(
      format("The checkpoint has the state of callbacks that this run does not have, or has with other options: {}. It is left "
             "out; add them to resume as the run that saved it.",
             join(left)));
}

Value DataSection::values(TrainerState& run) {
  Value all;
  all[kDataModuleOptions] = hyperparams_of(run.parts).at("data");
  if (run.parts.data == nullptr) return all;
  const DataModule& data = *run.parts.data;
  const auto scope = run.hooks.enter(Hook::kStateDict);
  all["datamodule"] = data.state_dict();
  all[kDataModuleClass] = class_name_of(typeid(data));
  const std::vector<std::string> preparations = data.preparations();
  if (!preparations.empty()) all[kPreparations] = OptionType<std::vector<std::string>>::write(preparations);
  return all;
}

void DataSection::save(TrainerState& run, Checkpoint& checkpoint) {
  const bool has_gone = run.parts.data == nullptr && kept_.is_map();
  for (auto& [key, value] : (has_gone ? kept_ : values(run)).as_map()) checkpoint.manifest[key] = value;
}

void DataSection::load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) {
  const Value* const saved = step == LoadStep::kSetup ? checkpoint.manifest.find("datamodule") : nullptr;
  if (saved == nullptr || run.parts.data == nullptr) return;
  const auto scope = run.hooks.enter(Hook::kLoadStateDict);
  run.parts.data->load_state_dict(*saved);
}

}  // namespace levin
