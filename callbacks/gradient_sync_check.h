#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "levin/core/callback.h"
#include "levin/core/export.h"
#include "levin/core/options/choice.h"
#include "levin/core/options/options.h"

namespace levin {

/// What follows when ranks differ.
enum class OnDifference : std::uint8_t { kWarn, kError };
template <>
inline constexpr std::array kChoices<OnDifference> = {Choice{OnDifference::kWarn, "warn"},
                                                      Choice{OnDifference::kError, "error"}};

struct LEVIN_API GradientSyncCheckOptions {
  std::int64_t every_n_steps = 100;  ///< of each optimizer, from its first step on
  OnDifference on_difference = OnDifference::kError;

  static void declare(OptionList<GradientSyncCheckOptions>& options);
};

/// Looks, before an optimizer steps, whether all ranks hold the same bits of every parameter and gradient, and names those that
/// differ: with the rank and by how much at most. What makes weights differ shows too, such as learning rates that a hook sets
/// by rank. Parameters of the optimizer that got no gradient are named in a warning, on one process too. A check costs one
/// exchange of 16 bytes a parameter, and reads all weights and gradients once.
class LEVIN_API GradientSyncCheck final : public Callback {
 public:
  using Options = GradientSyncCheckOptions;

  explicit GradientSyncCheck(GradientSyncCheckOptions options = {});
  Value settings() const override { return write_options(options_); }

  /// Throws DesyncError, on every rank, when ranks differ and that is an error.
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;

 private:
  GradientSyncCheckOptions options_;
  std::map<const torch::optim::Optimizer*, std::int64_t> steps_;
};

}  // namespace levin
