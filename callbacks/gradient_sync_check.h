#pragma once

#include <cstdint>
#include <map>

#include "levin/callbacks/severity.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace levin {

struct LEVIN_API GradientSyncCheckOptions {
  std::int64_t every_n_steps = 100;  ///< of each optimizer, from its first step on
  Severity on_difference = Severity::kError;

  static void declare(OptionList<GradientSyncCheckOptions>& options);
};

/// Checks before an optimizer steps that all ranks hold the same bits of every parameter and gradient. It names those that
/// differ, with the rank and the largest difference. Weights also differ after changes that depend on the rank, such as
/// learning rates that a hook sets. Parameters of the optimizer that got no gradient are named in a warning, on one process
/// too. A check costs one exchange of 16 bytes a parameter, and reads all weights and gradients once.
class LEVIN_API GradientSyncCheck final : public WithOptions<Callback, GradientSyncCheckOptions> {
 public:
  explicit GradientSyncCheck(const Options& options = {}) : WithOptions("GradientSyncCheck", options) {}

  /// Throws DesyncError, on every rank, when ranks differ and that is an error.
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;

 private:
  std::map<const torch::optim::Optimizer*, std::int64_t> steps_;
};

}  // namespace levin
