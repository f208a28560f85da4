#pragma once

#include "levin/core/state/trainer_state.h"

namespace levin {

/// This rank's.
RankState own_rank_state(TrainerState& run);
/// Ranks: all. Every rank's, by rank, on rank 0, which writes the file; none on others.
std::vector<RankState> gather_rank_states(TrainerState& run);
void save_rank_states(const std::vector<RankState>& states, Checkpoint& checkpoint);

/// What this rank takes over. Says so when random numbers cannot go on, as the run that saved had no such rank. Of fewer ranks
/// one goes on in place of several. `gradients_are_local`: each rank had its own.
RankResume load_rank_state(const TrainerState& run, const Checkpoint& checkpoint, bool gradients_are_local);
/// Random numbers go on as that rank's did, where the run that saved had such a rank.
void restore_random_state(const Strategy& strategy, const Checkpoint& checkpoint);
/// What a logger had been given, as far as the checkpoint knows.
RowCounts logger_rows_of(const Checkpoint& checkpoint, int rank, std::size_t logger);
/// What save_rank_states() put into a checkpoint, as it is: for a run that saves before it has come to where it goes on.
void copy_rank_states(const Checkpoint& source, Checkpoint& target);

/// Ranks: all, when they end for a signal. Gathers every rank's state on rank 0, for checkpoints that it saves meanwhile.
void keep_rank_states(TrainerState& run);

}  // namespace levin
