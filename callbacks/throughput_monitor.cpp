#include <cstdint>
#include <deque>
#include <string>

#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/process.h"
#include "levin/core/batch.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {

struct ThroughputMonitorOptions {
  std::int64_t window_size = 100;  ///< batches over which rates are means

  static void declare(OptionList<ThroughputMonitorOptions>& options) {
    options.add(&ThroughputMonitorOptions::window_size, "Batches over which rates are means").min(1);
  }
};

/// Logs the speed of training with each row of step values, by Lightning's names: `train/samples_per_sec` and
/// `train/batches_per_sec` of all ranks together, `train/device/samples_per_sec` and `train/device/batches_per_sec` of each
/// rank, `train/time` (seconds), `train/batches` and `train/samples` since training began; and, where the module has
/// Module::flops_per_batch(), `train/flops_per_sec` and `train/device/flops_per_sec`. Rates come with the second such row.
/// Time in validations does not count. A device is waited for only when there is a row to log.
class ThroughputMonitor final : public WithOptions<Callback, ThroughputMonitorOptions> {
 public:
  explicit ThroughputMonitor(const Options& options) : WithOptions("ThroughputMonitor", options) {}

  void on_train_start(Trainer&, Module&) override {
    started_ = steady_seconds();
    done_ = {};
    window_.clear();
  }

  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch& batch,
                          std::int64_t batch_idx) override {
    ++done_.batches;
    done_.samples += batch.batch_size();
    done_.flops += module.flops_per_batch().value_or(0);
    if (!detail::ends_row(trainer, module, batch_idx)) return;
    const Strategy& strategy = trainer.strategy();
    strategy.accelerator().synchronize(strategy.device());
    done_.seconds = steady_seconds() - started_;
    log(trainer, module);
  }

  void on_validation_start(Trainer& trainer, Module&) override {
    if (trainer.fitting()) validation_started_ = steady_seconds();
  }

  // The sanity check comes before training begins.
  void on_validation_end(Trainer& trainer, Module&) override {
    if (trainer.fitting()) started_ += steady_seconds() - validation_started_;
  }

 private:
  /// What this rank has done since training began.
  struct Mark {
    double seconds = 0;
    std::int64_t batches = 0;
    std::int64_t samples = 0;
    double flops = 0;
  };

  void log(Trainer& trainer, Module& module) {
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

  double started_ = 0;  ///< moved on by the time of validations
  double validation_started_ = 0;
  Mark done_;
  std::deque<Mark> window_;  ///< of earlier rows; the first is older than the window, or as old as there are
};

LEVIN_REGISTER_CALLBACK(ThroughputMonitor, "Log samples, batches and floating-point operations a second");

}  // namespace levin
