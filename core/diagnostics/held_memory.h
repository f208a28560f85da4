#pragma once

#include "levin/core/run/run_setup.h"

namespace c10 {
class Error;
}

namespace levin {

/// Says in an error of a device that is out of memory what this rank holds there (weights, buffers, gradients, the optimizers'
/// state, and all else that its accelerator counts), a line each and the largest first, in MiB; then what it has reserved and
/// does not use, which the error may just have freed, and what others have. Memory that tensors share counts once. Leaves other
/// errors as they are, and one on a CPU whose memory nobody counts. Takes no memory of the device's.
void add_held_memory(c10::Error& error, const RunParts& parts, const Strategy& strategy) noexcept;

}  // namespace levin
