#include "levin/core/state/weight_section.h"

#include <typeinfo>

#include "levin/core/base/text.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

void WeightSection::save(TrainerState& run, Checkpoint& checkpoint) {
  Value& manifest = checkpoint.manifest;
  const Module& module = run.module();
  manifest["hyper_parameters"] = hyperparams_of(run.parts).at("model");
  manifest[kModuleClass] = class_name_of(typeid(module));
  manifest[kPrecision] = OptionType<PrecisionFormat>::write(run.options().precision);
  if (run.options().channels_last) manifest[kChannelsLast] = true;
  run.strategy().save_module(run.module(), checkpoint, !run.entry.failing);
}

void WeightSection::load_early(TrainerState& run, const Checkpoint& checkpoint, LoadStep step) {
  if (step == LoadStep::kModule) run.strategy().load_module(run.module(), checkpoint);
}

}  // namespace levin
