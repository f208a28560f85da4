#pragma once

#include <cstddef>

#include "levin/core/base/fwd.h"

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

}  // namespace levin
