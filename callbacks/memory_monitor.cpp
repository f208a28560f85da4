#include <cstdint>

#include "levin/callbacks/memory_growth.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {

namespace {

constexpr double kBytesOfMb = 1024.0 * 1024.0;
double in_mb(std::int64_t bytes) { return static_cast<double>(bytes) / kBytesOfMb; }

}  // namespace

struct MemoryMonitorOptions {
  std::int64_t warn_after_epochs = 4;
  double least_growth_mb = 1;

  static void declare(OptionList<MemoryMonitorOptions>& options) {
    using O = MemoryMonitorOptions;
    options.add(&O::warn_after_epochs, "Warn when memory grew in this number of epochs one after another; 0: never")
        .min(0)
        .instead("0 never warns");
    options.add(&O::least_growth_mb, "What counts as growth, MB an epoch").min(0.001);
  }
};

/// Logs the memory of each rank after each training epoch, in MB: `memory_resident`, `memory_peak`, and of a device
/// `memory_allocated`, `memory_reserved` and `memory_used`; the most of all ranks, and each rank's own. Warns, once in a run,
/// when memory grows in `warn_after_epochs` epochs one after another.
class MemoryMonitor final : public WithOptions<Callback, MemoryMonitorOptions> {
 public:
  explicit MemoryMonitor(Options options) : WithOptions("MemoryMonitor", options), growth_(least_growth()) {}

  void on_train_start(Trainer&, Module&) override {
    growth_ = MemoryGrowth(least_growth());
    warned_ = false;
  }

  void on_train_epoch_end(Trainer& trainer, Module& module) override {
    const auto log = [&](const char* name, std::int64_t bytes) {
      module.log(name, in_mb(bytes), {.on_step = false, .on_epoch = true, .reduce = Reduce::kMax, .per_rank = true});
    };
    const ProcessMemory process = process_memory();
    log("memory_resident", process.resident);
    log("memory_peak", process.peak);
    const Strategy& strategy = trainer.strategy();
    const auto device = strategy.accelerator().memory(strategy.device());
    if (device) {
      log("memory_allocated", device->allocated);
      log("memory_reserved", device->reserved);
      if (device->used) log("memory_used", *device->used);
    }
    growth_.add((process.in_use > 0 ? process.in_use : process.resident) + (device ? device->allocated : 0));
    const std::int64_t limit = options_.warn_after_epochs;
    if (!warned_ && limit > 0 && growth_.epochs() >= limit) warn();
  }

 private:
  std::int64_t least_growth() const { return static_cast<std::int64_t>(options_.least_growth_mb * kBytesOfMb); }

  void warn() {
    warned_ = true;
    const double grown = in_mb(growth_.bytes()) / static_cast<double>(growth_.epochs());
    // Ranks whose memory grows have one warning.
    Console::instance().warn_once(
        format("Memory grows: by {:.1f} MB in each of the last {} epochs, to {:.1f} MB in use. Look for what keeps tensors "
               "alive: a container that gets longer with each batch or epoch, or a loss stored with its graph, where "
               "loss.item() or loss.detach() would do.",
               grown, growth_.epochs(), in_mb(growth_.in_use())),
        "memory grows");
  }

  MemoryGrowth growth_;
  bool warned_ = false;
};

LEVIN_REGISTER_CALLBACK(MemoryMonitor, "Log the memory of each rank, and warn when it grows");

}  // namespace levin
