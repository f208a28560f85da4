#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "levin/core/base/source_location.h"
#include "levin/core/trainer.h"

namespace levin {

/// Module::gather_for_metrics, whose comment says what it does. Ranks: all.
at::Tensor gather_samples(Trainer::Runtime& runtime, const std::vector<at::Tensor>& batches, std::int64_t dataloader_idx,
                          SourceLocation where);

}  // namespace levin
