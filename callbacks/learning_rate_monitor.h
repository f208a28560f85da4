#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/callback.h"
#include "levin/core/export.h"
#include "levin/core/options/choice.h"
#include "levin/core/options/options.h"

namespace levin {

struct LEVIN_API LearningRateMonitorOptions {
  /// Unset: as often as each scheduler steps.
  std::optional<Interval> logging_interval = std::nullopt;
  bool log_momentum = false;
  bool log_weight_decay = false;

  static void declare(OptionList<LearningRateMonitorOptions>& options);
};

/// Hands the learning rates of all optimizers to the loggers, and to callback_metrics. The names are `lr-<optimizer class>`, or
/// the scheduler's name; see learning_rates().
class LEVIN_API LearningRateMonitor final : public Callback {
 public:
  using Options = LearningRateMonitorOptions;

  explicit LearningRateMonitor(LearningRateMonitorOptions options = {});
  Value settings() const override { return write_options(options_); }

  /// What has been logged, by name.
  const std::map<std::string, std::vector<double>>& lrs() const { return lrs_; }

  /// Throws ConfigError when the Trainer has no logger.
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
  void on_train_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx) override;

 private:
  /// `interval`: rates of schedulers of this interval; unset: of all.
  void log(Trainer& trainer, std::optional<Interval> interval);

  LearningRateMonitorOptions options_;
  std::map<std::string, std::vector<double>> lrs_;
};

}  // namespace levin
