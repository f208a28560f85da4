#include "levin/callbacks/throughput_monitor.h"

#include "levin/core/accelerator.h"
#include "levin/core/base/process.h"
#include "levin/core/batch.h"
#include "levin/core/module.h"
#include "levin/core/trainer.h"

namespace levin {
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
