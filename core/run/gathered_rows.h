#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/core/run/progress.h"

namespace levin {

/// The samples of the current batch, or of the loader's epoch so far; nullopt when the loader does not know. `call`: the
/// caller's name, for errors. Throws MisuseError when no data is being read.
std::optional<std::vector<std::int64_t>> samples_in_work(const BatchProgress& progress, std::int64_t dataloader_idx,
                                                         const std::string& call);

/// Module::gather_for_metrics(): the rows of all ranks in the order of their samples, each sample once, on the CPU; as they
/// come, rank by rank, when a rank does not know its samples. Ranks: all. Throws the same error on every rank when rows do not
/// fit together.
at::Tensor gather_rows(RankExchange exchange, const std::vector<at::Tensor>& batches, const BatchProgress& progress,
                       std::int64_t dataloader_idx, const std::string& call);

}  // namespace levin
