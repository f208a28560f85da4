#pragma once

#include <cstdint>

#include "levin/callbacks/memory_growth.h"
#include "levin/core/callback.h"
#include "levin/core/options/options.h"

namespace levin {

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

}  // namespace levin
