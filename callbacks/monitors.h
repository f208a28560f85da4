#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "levin/core/callback.h"
#include "levin/core/options/options.h"

namespace levin {

/// Tells memory that grows steadily, epoch after epoch, from what is allocated once, and from what comes and goes.
class MemoryGrowth {
 public:
  /// `least`: bytes an epoch that count as growth.
  explicit MemoryGrowth(std::int64_t least) : least_(least) {}

  /// After an epoch: bytes in use.
  void add(std::int64_t in_use);
  /// In how many epochs, up to the last, it grew, by no less than a quarter of what it grew by in any of them.
  std::int64_t epochs() const { return static_cast<std::int64_t>(growth_.size()); }
  /// In all of these, bytes.
  std::int64_t bytes() const;
  std::int64_t in_use() const { return last_; }

 private:
  std::int64_t least_;
  std::int64_t last_ = -1;  ///< -1: no epoch yet
  std::vector<std::int64_t> growth_;
};

struct MemoryMonitorOptions {
  std::int64_t warn_after_epochs = 4;
  double least_growth_mb = 1;

  static void declare(OptionList<MemoryMonitorOptions>& options);
};

/// Logs the memory of each rank after each training epoch, in MB: `memory_resident`, `memory_peak`, and of a device
/// `memory_allocated`, `memory_reserved` and `memory_used`; the most of all ranks, and each rank's own. Warns, once in a run,
/// when memory grows in `warn_after_epochs` epochs one after another.
class MemoryMonitor final : public Callback {
 public:
  using Options = MemoryMonitorOptions;

  explicit MemoryMonitor(MemoryMonitorOptions options = {});
  Value settings() const override { return write_options(options_); }

  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;

 private:
  void warn();

  MemoryMonitorOptions options_;
  MemoryGrowth growth_;
  bool warned_ = false;
};

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
