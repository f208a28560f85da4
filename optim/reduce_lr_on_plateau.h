#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/optimizers/lr_scheduler.h"
#include "levin/core/options/choice.h"
#include "levin/optim/stepped_lr_scheduler.h"

namespace levin {

/// Whether a threshold is a part of the best metric so far, or a difference from it.
enum class ThresholdMode : std::uint8_t { kRelative, kAbsolute };
template <>
inline constexpr std::array kChoices<ThresholdMode> = {Choice{ThresholdMode::kRelative, "rel"},
                                                       Choice{ThresholdMode::kAbsolute, "abs"}};

struct LEVIN_API ReduceLrOnPlateauOptions {
  using Scheduler = class ReduceLrOnPlateau;
  MonitorMode mode = MonitorMode::kMin;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::kRelative;
  std::int64_t cooldown = 0;
  PerGroup min_lr = 0.0;
  double eps = 1e-8;
  static void declare(OptionList<ReduceLrOnPlateauOptions>& options);
};

/// Multiplies the rate by factor when a metric has not become better for more than `patience` steps.
class LEVIN_API ReduceLrOnPlateau final : public LrScheduler {
 public:
  using Options = ReduceLrOnPlateauOptions;
  explicit ReduceLrOnPlateau(torch::optim::Optimizer& optimizer, const ReduceLrOnPlateauOptions& options = {});

  /// Throws MisuseError without a metric.
  void step(std::optional<double> metric = std::nullopt) override;
  bool needs_metric() const override { return true; }
  std::vector<double> last_lr() const override { return last_lr_; }
  torch::optim::Optimizer& optimizer() const override { return optimizer_; }
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;

 private:
  bool is_better(double metric) const;
  void reduce();

  torch::optim::Optimizer& optimizer_;
  Options options_;
  std::vector<double> last_lr_;
  double best_;
  std::int64_t last_epoch_ = 0;
  std::int64_t bad_epochs_ = 0;
  std::int64_t cooldown_left_ = 0;
};

}  // namespace levin
