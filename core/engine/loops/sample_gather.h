#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/engine/parts/progress.h"
#include "levin/core/strategy.h"

namespace levin {

/// Module::gather_for_metrics, whose comment says what it does. Ranks: all.
at::Tensor gather_samples(Strategy& strategy, const BatchProgress& progress, const std::vector<at::Tensor>& batches,
                          std::int64_t dataloader_idx, SourceLocation where);

}  // namespace levin
