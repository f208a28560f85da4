#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "levin/core/config/option_type.h"
#include "levin/core/config/value.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace torch::optim {
class Optimizer;
}

namespace levin {

/// Multiplies every gradient of an optimizer's parameters.
void scale_gradients(torch::optim::Optimizer& optimizer, double factor);

/// The norm of each parameter's gradient; undefined for a parameter without one.
std::vector<at::Tensor> norms_of_gradients(const std::vector<at::Tensor>& parameters, double norm_type);

/// The 2-norms of an optimizer's gradients, computed once for clipping and for all other readers.
class GradientNorms {
 public:
  /// A backward pass begins: its gradients may reuse the memory of earlier ones.
  void forget() { known_.clear(); }
  /// By parameter, as from norms_of_gradients(); for clipped gradients, the norms before clipping.
  const std::vector<at::Tensor>& before_clipping(const torch::optim::Optimizer& optimizer);
  /// The current norms, for clipping; clipped() must follow.
  const std::vector<at::Tensor>& to_clip(const torch::optim::Optimizer& optimizer) { return now(optimizer).norms; }
  void clipped(const torch::optim::Optimizer& optimizer);

 private:
  /// Gradients at one moment. A later tensor at the address of a destroyed one does not compare equal.
  using Versions = std::vector<std::pair<c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>, std::uint32_t>>;
  struct Known {
    Versions versions;  ///< of the gradients that have these norms
    Versions clipped;   ///< of the same gradients after clipping
    std::vector<at::Tensor> norms;
  };
  static Versions versions_of(const std::vector<at::Tensor>& parameters);
  const Known& now(const torch::optim::Optimizer& optimizer);
  std::map<const torch::optim::Optimizer*, Known> known_;
};

/// Clips the gradients of an optimizer's parameters: kNorm to a total 2-norm of `value`, kValue to [-value, value]; 0 clips
/// nothing. `norms`: used and updated; may be null. Throws MisuseError for a value below 0 and NaN.
void clip_gradients(torch::optim::Optimizer& optimizer, double value, GradientClipAlgorithm algorithm,
                    GradientNorms* norms = nullptr);

/// This rank's losses since the last optimizer step, recorded on request.
class StepLosses {
 public:
  void keep() { kept_ = true; }
  bool are_kept() const { return kept_; }
  void restart(StepLoss earlier = {}) {
    earlier_ = earlier;
    added_.clear();
  }
  void add(const at::Tensor& loss, double weight);
  /// Waits for a device.
  StepLoss total() const;

 private:
  bool kept_ = false;
  StepLoss earlier_;
  std::vector<std::pair<at::Tensor, double>> added_;  ///< with their weights
};

/// Measures of the current step.
struct StepMeasures {
  StepLosses losses;
  GradientNorms norms;
};

/// Keeps gradients from vanishing in 16-bit floats: multiplies losses by a factor before backward passes, and divides gradients
/// by it before an optimizer steps. If one is then infinite or NaN, the step is skipped and the factor halves; after 2000 good
/// steps in a row it doubles, as in torch.amp.GradScaler. With equal gradients all ranks do the same.
class GradientScaler {
 public:
  /// A fit begins. `enabled`: its forward passes compute in 16-bit floats; otherwise everything below does nothing.
  void begin(bool enabled) { *this = GradientScaler(enabled); }
  /// Called: between batches. Updates the factor after a batch, since the gradients of its backward passes need the same one.
  void begin_batch();

  at::Tensor scale(const at::Tensor& loss) const;
  /// Divides an optimizer's gradients, or clears them when one of them is not finite: the optimizer then skips all parameters.
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
