#pragma once

#include <cstdint>
#include <deque>

#include "levin/core/callback.h"
#include "levin/core/options/options.h"

namespace levin {

struct ThroughputMonitorOptions {
  std::int64_t window_size = 100;  ///< batches over which rates are means

  static void declare(OptionList<ThroughputMonitorOptions>& options);
};

/// Logs how fast training goes, with each row of step values, by Lightning's names: `train/samples_per_sec` and
/// `train/batches_per_sec` of all ranks together, `train/device/samples_per_sec` and `train/device/batches_per_sec` of each
/// rank, `train/time` (seconds), `train/batches` and `train/samples` since training began; and, where the module tells
/// Module::flops_per_batch(), `train/flops_per_sec` and `train/device/flops_per_sec`. Rates come with the second such row.
/// Time in validations does not count. A device is waited for only when there is a row to log.
class ThroughputMonitor final : public Callback {
 public:
  using Options = ThroughputMonitorOptions;

  explicit ThroughputMonitor(ThroughputMonitorOptions options = {});
  Value settings() const override { return write_options(options_); }

  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_validation_start(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;

 private:
  /// What this rank has done since training began.
  struct Mark {
    double seconds = 0;
    std::int64_t batches = 0;
    std::int64_t samples = 0;
    double flops = 0;
  };

  void log(Trainer& trainer, Module& module);

  ThroughputMonitorOptions options_;
  double started_ = 0;  ///< moved on by the time of validations
  double validation_started_ = 0;
  Mark done_;
  std::deque<Mark> window_;  ///< of earlier rows; the first is older than the window, or as old as there are
};

}  // namespace levin
