#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "levin/core/options/option_type.h"
#include "levin/core/options/value.h"

namespace torch::optim {
class Optimizer;
}

namespace levin {

/// Multiplies every gradient of an optimizer's parameters.
void scale_gradients(torch::optim::Optimizer& optimizer, double factor);

/// Clips the gradients of an optimizer's parameters: kNorm to a total 2-norm of `value`, kValue to [-value, value].
void clip_gradients(torch::optim::Optimizer& optimizer, double value, GradientClipAlgorithm algorithm);

/// Keeps gradients from vanishing in 16-bit floats: losses are multiplied by a factor before backward passes, and gradients
/// divided by it before an optimizer steps. Where one is then infinite or NaN the step is left out and the factor halves; after
/// 2000 good steps in a row it doubles, as torch.amp.GradScaler's. Where gradients are equal, all ranks do the same.
class GradientScaler {
 public:
  /// A fit begins. `enabled`: its forward passes compute in 16-bit floats; everything below does nothing otherwise.
  void begin(bool enabled) { *this = GradientScaler(enabled); }
  /// Between batches: takes over what the last one showed. Until then gradients of several backward passes need one factor.
  void begin_batch();

  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides an optimizer's gradients, or clears them when one of them is not finite: the optimizer then passes over all.
  void unscale(torch::optim::Optimizer& optimizer);

  /// Null when nothing is scaled.
  Value state() const;
  void load_state(const Value& state);

  GradientScaler() = default;

 private:
  explicit GradientScaler(bool enabled) : enabled_(enabled) {}

  bool enabled_ = false;
  double factor_ = 65536.0;
  std::int64_t good_batches_ = 0;  ///< in a row, with a step
  bool stepped_ = false;           ///< since the batch began
  bool overflowed_ = false;        ///< likewise
};

}  // namespace levin
