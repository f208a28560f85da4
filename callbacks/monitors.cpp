#include "levin/callbacks/monitors.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/batch.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/options/registry.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {

LEVIN_REGISTER_CALLBACK(MemoryMonitor, "Log the memory of each rank, and warn when it grows");
LEVIN_REGISTER_CALLBACK(ThroughputMonitor, "Log samples, batches and floating-point operations a second");

void MemoryGrowth::add(std::int64_t in_use) {
  const std::int64_t before = std::exchange(last_, in_use);
  if (before < 0) return;
  const std::int64_t grown = in_use - before;
  // What is far less than before, or far more, is growth of another kind.
  const auto differs = [grown](std::int64_t earlier) { return grown < earlier / 4 || earlier < grown / 4; };
  if (grown < least_ || std::any_of(growth_.begin(), growth_.end(), differs)) growth_.clear();
  if (grown >= least_) growth_.push_back(grown);
}

std::int64_t MemoryGrowth::bytes() const { return std::accumulate(growth_.begin(), growth_.end(), std::int64_t{0}); }

namespace {

constexpr double kBytesOfMb = 1024.0 * 1024.0;
double in_mb(std::int64_t bytes) { return static_cast<double>(bytes) / kBytesOfMb; }

}  // namespace

void MemoryMonitorOptions::declare(OptionList<MemoryMonitorOptions>& options) {
  using O = MemoryMonitorOptions;
  options
      .add("warn_after_epochs", &O::warn_after_epochs,
           "Warn when memory grew in this number of epochs one after another; 0: never")
      .min(0);
  options.add("least_growth_mb", &O::least_growth_mb, "What counts as growth, MB an epoch").min(0.001);
}

MemoryMonitor::MemoryMonitor(MemoryMonitorOptions options)
    : options_(checked("MemoryMonitor", options)), growth_(static_cast<std::int64_t>(options_.least_growth_mb * kBytesOfMb)) {}

void MemoryMonitor::on_train_start(Trainer&, Module&) {
  growth_ = MemoryGrowth(static_cast<std::int64_t>(options_.least_growth_mb * kBytesOfMb));
  warned_ = false;
}

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
  const std::int64_t limit = options_.warn_after_epochs;
  if (!warned_ && limit > 0 && growth_.epochs() >= limit) warn();
}

void MemoryMonitor::warn() {
  warned_ = true;
  const double grown = in_mb(growth_.bytes()) / static_cast<double>(growth_.epochs());
  // Ranks whose memory grows have one warning.
  Console::instance().warn_once(
      format(
          "Memory grows: by {:.1f} MB in each of the last {} epochs, to {:.1f} MB in use. Look for what keeps tensors alive: a "
          "container that gets longer with each batch or epoch, or a loss kept with its graph, of which loss.item() or "
          "loss.detach() would do.",
          grown, growth_.epochs(), in_mb(growth_.in_use())),
      "memory grows");
}

namespace {

/// A row of step values follows this batch.
bool row_is_due(const Trainer& trainer, const Module& module, std::int64_t batch_idx) {
  const std::int64_t every = trainer.options().step_row_interval();
  const bool ends_step = (batch_idx + 1) % trainer.accumulate_grad_batches() == 0 || trainer.is_last_batch();
  const std::int64_t steps = module.automatic_optimization() ? trainer.global_step() : trainer.total_batch_idx() + 1;
  return every > 0 && ends_step && steps % every == 0;
}

}  // namespace

void ThroughputMonitorOptions::declare(OptionList<ThroughputMonitorOptions>& options) {
  options.add("window_size", &ThroughputMonitorOptions::window_size, "Batches over which rates are means").min(1);
}

ThroughputMonitor::ThroughputMonitor(ThroughputMonitorOptions options) : options_(checked("ThroughputMonitor", options)) {}

void ThroughputMonitor::on_train_start(Trainer&, Module&) {
  started_ = steady_seconds();
  done_ = {};
  window_.clear();
}

void ThroughputMonitor::on_validation_start(Trainer& trainer, Module&) {
  if (trainer.fitting()) validation_started_ = steady_seconds();
}

// The sanity check comes before training begins.
void ThroughputMonitor::on_validation_end(Trainer& trainer, Module&) {
  if (trainer.fitting()) started_ += steady_seconds() - validation_started_;
}

void ThroughputMonitor::on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch& batch,
                                           std::int64_t batch_idx) {
  ++done_.batches;
  done_.samples += batch.batch_size();
  done_.flops += module.flops_per_batch().value_or(0);
  if (!row_is_due(trainer, module, batch_idx)) return;
  const Strategy& strategy = trainer.strategy();
  strategy.accelerator().synchronize(strategy.device());
  done_.seconds = steady_seconds() - started_;
  log(trainer, module);
}

void ThroughputMonitor::log(Trainer& trainer, Module& module) {
  const auto log_own = [&](const char* name, double value) { module.log(name, value, {.on_step = true, .on_epoch = false}); };
  log_own("train/time", done_.seconds);
  log_own("train/batches", static_cast<double>(done_.batches));
  log_own("train/samples", static_cast<double>(done_.samples));
  while (window_.size() > 1 && done_.batches - window_[1].batches >= options_.window_size) window_.pop_front();
  if (!window_.empty() && done_.seconds > window_.front().seconds) {
    const Mark& first = window_.front();
    const double seconds = done_.seconds - first.seconds;
    const bool several = trainer.world_size() > 1;
    const auto log_rate = [&](const std::string& name, double amount) {
      module.log("train/device/" + name, amount / seconds, {.on_step = true, .on_epoch = false, .per_rank = several});
      module.log("train/" + name, amount / seconds,
                 {.on_step = true, .on_epoch = false, .reduce = Reduce::kSum, .sync_dist = true});
    };
    log_rate("batches_per_sec", static_cast<double>(done_.batches - first.batches));
    log_rate("samples_per_sec", static_cast<double>(done_.samples - first.samples));
    if (module.flops_per_batch()) log_rate("flops_per_sec", done_.flops - first.flops);
  }
  window_.push_back(done_);
}

}  // namespace levin
