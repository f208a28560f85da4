#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/fwd.h"

namespace levin {

/// Indices in the dataset of the samples of the batch that is being worked on, in the order of its rows; -1 for one that is
/// only there to make ranks even. nullopt when the loader cannot tell (BatchLoader::epoch_samples). Called: in a hook of a
/// batch. It takes longer the further the epoch is, since a loader tells its samples from the epoch's start.
LEVIN_API std::optional<std::vector<std::int64_t>> samples_of_batch(const Trainer& trainer);

}  // namespace levin
