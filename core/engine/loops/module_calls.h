#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/engine/parts/progress.h"
#include "levin/core/strategy.h"

namespace levin {

struct TrainerState;

/// What a module does by hand in training_step when it turns automatic optimization off.
class ManualOptimization {
 public:
  /// Throws MisuseError outside of training.
  explicit ManualOptimization(const Trainer& trainer);
  void backward(const at::Tensor& loss, bool synchronize);
  void step(std::size_t index);
  void toggle(std::size_t index);
  void untoggle(std::size_t index);

 private:
  TrainerState& run_;
};

/// Module::gather_for_metrics, whose comment says what it does. Ranks: all.
at::Tensor gather_samples(Strategy& strategy, const BatchProgress& progress, const std::vector<at::Tensor>& batches,
                          std::int64_t dataloader_idx, SourceLocation where);

}  // namespace levin
