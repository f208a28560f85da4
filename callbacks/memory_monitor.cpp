#include "levin/callbacks/memory_monitor.h"

#include <algorithm>
#include <string>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

constexpr double kBytesOfMb = 1024.0 * 1024.0;
/// Epochs in which tensors are counted: those that live for an epoch, as gradients do, are there at the end of both.
constexpr std::int64_t kCountedEpochs = 2;

double in_mb(std::int64_t bytes) { return static_cast<double>(bytes) / kBytesOfMb; }

/// What grows.
struct Cause {
  std::string where;  ///< "training_step"
  std::string text;   ///< for a person who looks for who keeps it
};

Cause cause(const std::map<Hook, std::int64_t>& before, const std::map<Hook, std::int64_t>& now, double grown) {
  Hook hook = Hook::kNone;
  std::int64_t most = 0;
  for (const auto& [made_in, bytes] : now) {
    const auto found = before.find(made_in);
    const std::int64_t more = bytes - (found == before.end() ? 0 : found->second);
    if (more <= most) continue;
    hook = made_in;
    most = more;
  }
  if (in_mb(most) < grown / 4) {
    return {"other objects",
            "It is not in tensors, but in other objects: look for a container, or a text, that gets longer with each batch or "
            "epoch."};
  }
  if (hook == Hook::kNone) {
    return {"no hook",
            format("{:.1f} MB of it are tensors made outside of hooks, or by threads such as a loader's, that stay alive.",
                   in_mb(most))};
  }
  return {std::string(hook_name(hook)),
          format("{:.1f} MB of it are tensors made in {} that stay alive. Look for what keeps them: a container that is never "
                 "emptied, or a loss kept with its graph, of which loss.item() or loss.detach() would do.",
                 in_mb(most), hook_name(hook))};
}

}  // namespace

void MemoryMonitorOptions::declare(OptionList<MemoryMonitorOptions>& options) {
  using O = MemoryMonitorOptions;
  options.add("warn_after_epochs", &O::warn_after_epochs, "Warn when memory grew in so many epochs one after another; 0: never")
      .min(0);
  options.add("least_growth_mb", &O::least_growth_mb, "What counts as growth, MB an epoch").min(0.001);
  options.rule({"warn_after_epochs"}, [](const O& monitor) {
    const bool counts = monitor.warn_after_epochs == 0 || monitor.warn_after_epochs > kCountedEpochs;
    return counts ? "" : "warn_after_epochs must be 0, or at least 3: tensors are counted in the last two epochs";
  });
}

MemoryMonitor::MemoryMonitor(MemoryMonitorOptions options)
    : options_(checked("MemoryMonitor", options)), growth_(static_cast<std::int64_t>(options_.least_growth_mb * kBytesOfMb)) {}

void MemoryMonitor::on_train_start(Trainer&, Module&) {
  growth_ = MemoryGrowth(static_cast<std::int64_t>(options_.least_growth_mb * kBytesOfMb));
  warned_ = false;
}

void MemoryMonitor::teardown(Trainer&, Module&, Stage) { tensors_.reset(); }

void MemoryMonitor::on_train_epoch_end(Trainer& trainer, Module& module) {
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
  if (!warned_ && options_.warn_after_epochs > 0) look_for_growth(trainer);
}

void MemoryMonitor::look_for_growth(const Trainer& trainer) {
  const std::int64_t left = options_.warn_after_epochs - growth_.epochs();
  if (left > kCountedEpochs) {
    tensors_.reset();
  } else if (left <= 0) {
    warn();
  } else if (!tensors_) {
    tensors_ = std::make_unique<TensorsByHook>(trainer);
  } else {
    alive_before_ = tensors_->alive();
  }
}

void MemoryMonitor::warn() {
  warned_ = true;
  const double grown = in_mb(growth_.bytes()) / static_cast<double>(growth_.epochs());
  const Cause why = cause(alive_before_, tensors_ ? tensors_->alive() : std::map<Hook, std::int64_t>(), grown);
  // Ranks whose memory grows in one place have one warning.
  Console::instance().warn_once(format("Memory grows: by {:.1f} MB in each of the last {} epochs, to {:.1f} MB in use. {}",
                                       grown, growth_.epochs(), in_mb(growth_.in_use()), why.text),
                                "memory grows in " + why.where);
  tensors_.reset();
}

}  // namespace levin
