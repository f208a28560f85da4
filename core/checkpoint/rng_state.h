#pragma once

#include <ATen/core/Tensor.h>

namespace levin {

class Checkpoint;

/// The state of this process's CPU generator, as bytes: what a rank sends to rank 0 for the checkpoint.
at::Tensor rng_state();
/// Throws IoError when the bytes are no generator's state.
void set_rng_state(const at::Tensor& state);

/// Puts a rank's state into a checkpoint, as `rng.<rank>.cpu`.
void save_rng_state(int rank, const at::Tensor& state, Checkpoint& checkpoint);
/// Restores this process's generator to the state of a rank. False when the checkpoint has none for it, as in a run on more
/// ranks than the one that saved it.
bool load_rng_state(int rank, const Checkpoint& checkpoint);

}  // namespace levin
