#pragma once

#include <optional>

#include "levin/core/engine/loops/training_data.h"
#include "levin/core/engine/state/resume_state.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/protocol/metric_store.h"

namespace levin {

/// A place begins: what changes in it, should it begin anew, is remembered as it is now. `maps`: metrics as they are shown,
/// where the place shows new epoch values.
void begin_place(TrainerState& run, Place place, std::optional<MetricMaps> maps = std::nullopt);

/// A run that resumes has come to where it goes on. The hooks before set up what is in memory; what they logged and drew does
/// not count.
void take_over(TrainerState& run, TrainingData& data, const ResumePoint& resume);

}  // namespace levin
