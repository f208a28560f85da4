#pragma once

#include <vector>

#include "levin/core/state/section.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// Ranks: all. The state of each rank, by rank, on rank 0, which writes the file; empty on others.
std::vector<RankState> gather_rank_states(TrainerState& run);
void save_rank_states(const std::vector<RankState>& states, Checkpoint& checkpoint);
/// Ranks: all, when a signal ends them. Gathers every rank's state on rank 0, for checkpoints that it saves afterwards.
void keep_rank_states(TrainerState& run);

}  // namespace levin
