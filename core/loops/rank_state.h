#pragma once

#include <string>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/loops/runtime.h"

namespace levin {

/// This rank's, as it is now.
RankState own_rank_state(Trainer::Runtime& runtime);
/// Ranks: all. Every rank's, by rank.
std::vector<RankState> gather_rank_states(Trainer::Runtime& runtime);
void save_rank_state(int rank, const RankState& state, Checkpoint& checkpoint);

/// This rank's random state; a warning when the checkpoint has none for it, as in a run on more ranks than the one that saved
/// it.
void restore_random_state(const Trainer::Runtime& runtime, const Checkpoint& checkpoint);
/// What this rank had logged in the epoch under way, to be put back when its first hooks have run. On fewer ranks than before,
/// one goes on in place of several.
std::vector<std::vector<std::byte>> saved_metrics(const Trainer::Runtime& runtime, const Checkpoint& checkpoint);

/// Ranks: all, when they have agreed to end for a signal. Gathers every rank's state for the checkpoints that rank 0 saves
/// while the run ends.
void keep_rank_states(Trainer::Runtime& runtime);

}  // namespace levin
