#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace levin {

struct LEVIN_API LearningRateMonitorOptions {
  /// Unset: as often as each scheduler steps.
  std::optional<Interval> logging_interval = std::nullopt;
  bool log_momentum = false;
  bool log_weight_decay = false;
  std::string prefix = {};  ///< before each name: "optim/" makes `optim/lr-SGD` of `lr-SGD`

  static void declare(OptionList<LearningRateMonitorOptions>& options);
};

/// Logs the learning rates of all optimizers to the loggers and callback_metrics. The names are `lr-<optimizer class>`, or
/// the scheduler's name; see learning_rates().
class LEVIN_API LearningRateMonitor final : public WithOptions<Callback, LearningRateMonitorOptions> {
 public:
  explicit LearningRateMonitor(const Options& options = {}) : WithOptions("LearningRateMonitor", options) {}

  /// What has been logged, by name.
  const std::map<std::string, std::vector<double>>& lrs() const { return lrs_; }

  /// Throws ConfigError when the Trainer has no logger.
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
  void on_train_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx) override;

 private:
  /// Without a logging_interval only the rates of schedulers of this interval.
  void log(Trainer& trainer, Interval interval);

  std::map<std::string, std::vector<double>> lrs_;
};

}  // namespace levin
