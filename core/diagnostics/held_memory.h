#pragma once

#include "levin/core/run/run_setup.h"

namespace c10 {
class Error;
}

namespace levin {

/// Adds to an out-of-memory error of a device what this rank holds there (weights, buffers, gradients, the optimizers' state,
/// and the rest that its accelerator counts), one line each and the largest first, in MiB; then unused reserved memory, which
/// the error may just have freed, and other processes' memory. Shared memory counts once. Does not change other errors, nor
/// those of a CPU whose memory is not counted. Allocates no device memory.
void add_held_memory(c10::Error& error, const RunParts& parts, const Strategy& strategy) noexcept;

}  // namespace levin
