#include <torch/optim/optimizer.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <fstream>
#include <optional>
#include <span>

#include "levin/callbacks/measurements.h"
#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/batch.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/console/console.h"
#include "levin/core/learning_rates.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {
namespace {

constexpr double kBytesOfMb = 1024.0 * 1024.0;
double in_mb(std::int64_t bytes) { return static_cast<double>(bytes) / kBytesOfMb; }

/// The step that is about to be taken ends in a row of step values; the same by default of a callback's log_every_n_steps.
bool step_is_due(const Trainer& trainer, const Module& module, std::optional<std::int64_t> log_every_n_steps) {
  const std::int64_t every = log_every_n_steps.value_or(trainer.options().step_row_interval());
  const std::int64_t steps = module.automatic_optimization() ? trainer.global_step() : trainer.total_batch_idx();
  return every > 0 && (steps + 1) % every == 0;
}

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
               "alive: a container that gets longer with each batch or epoch, or a loss kept with its graph, of which "
               "loss.item() or loss.detach() would do.",
               grown, growth_.epochs(), in_mb(growth_.in_use())),
        "memory grows");
  }

  MemoryGrowth growth_;
  bool warned_ = false;
};

LEVIN_REGISTER_CALLBACK(MemoryMonitor, "Log the memory of each rank, and warn when it grows");

struct ThroughputMonitorOptions {
  std::int64_t window_size = 100;  ///< batches over which rates are means

  static void declare(OptionList<ThroughputMonitorOptions>& options) {
    options.add(&ThroughputMonitorOptions::window_size, "Batches over which rates are means").min(1);
  }
};

/// Logs how fast training goes, with each row of step values, by Lightning's names: `train/samples_per_sec` and
/// `train/batches_per_sec` of all ranks together, `train/device/samples_per_sec` and `train/device/batches_per_sec` of each
/// rank, `train/time` (seconds), `train/batches` and `train/samples` since training began; and, where the module tells
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

struct GradientNormMonitorOptions {
  double norm_type = 2;
  bool per_parameter = false;
  std::optional<std::int64_t> log_every_n_steps = std::nullopt;

  static void declare(OptionList<GradientNormMonitorOptions>& options) {
    using O = GradientNormMonitorOptions;
    options.add(&O::norm_type, "Which norm: 2, .inf for the largest absolute value")
        .above(0)
        .instead("a run without GradientNormMonitor logs none");
    options.add(&O::per_parameter, "Log the norm of each parameter's gradient, too");
    options.add(&O::log_every_n_steps, "Steps between looks; null: the Trainer's log_every_n_steps")
        .min(1)
        .instead("null takes the Trainer's log_every_n_steps");
  }
};

/// Logs the norm of an optimizer's gradients before they are clipped, by Lightning's names: `grad_2.0_norm_total`, with several
/// optimizers `grad_2.0_norm_total/0` and so on; of each parameter group, where there are several, by LearningRateMonitor's
/// names, `grad_2.0_norm/SGD/pg1`; and of each parameter if so told, `grad_2.0_norm/layer.weight`. 2-norms cost nothing where
/// gradients are clipped to a norm. Gradients are whole on each rank by then, also with ddp_sharded: ranks exchange nothing.
class GradientNormMonitor final : public WithOptions<Callback, GradientNormMonitorOptions> {
 public:
  explicit GradientNormMonitor(const Options& options) : WithOptions("GradientNormMonitor", options) {}

  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override {
    if (!step_is_due(trainer, module, options_.log_every_n_steps)) return;
    const double type = options_.norm_type;
    const std::vector<at::Tensor> norms = gradient_norms(trainer, optimizer, type);
    const std::string prefix = format("grad_{}_norm", std::isinf(type) ? "inf" : float_text(type));
    const auto log = [&](const std::string& name, std::span<const at::Tensor> of) {
      const std::optional<double> norm = total_norm({of.begin(), of.end()}, type);
      if (norm) module.log(prefix + name, *norm, {.on_step = true, .on_epoch = false, .reduce = Reduce::kMax});
    };
    log(trainer.optimizers().size() == 1 ? "_total" : format("_total/{}", detail::index_of(optimizer, trainer)), norms);
    std::size_t first = 0;
    for (const NamedParameterGroup& group : named_parameter_groups(trainer)) {
      if (group.optimizer != &optimizer || optimizer.param_groups().size() == 1) continue;
      const std::size_t size = optimizer.param_groups()[group.index].params().size();
      log("/" + group.name.substr(group.name.starts_with("lr-") ? 3 : 0), std::span(norms).subspan(first, size));
      first += size;
    }
    if (!options_.per_parameter) return;
    const std::vector<at::Tensor> parameters = all_parameters(optimizer);
    for (const auto& [name, parameter] : distinct_parameters(module)) {
      for (std::size_t place = 0; place < parameters.size(); ++place) {
        if (parameters[place].is_same(parameter)) log("/" + name, std::span(norms).subspan(place, 1));
      }
    }
  }
};

LEVIN_REGISTER_CALLBACK(GradientNormMonitor, "Log the norm of the gradients, whole and of each parameter group");

LEVIN_REGISTER_CALLBACK(ThroughputMonitor, "Log samples, batches and floating-point operations a second");

struct DeviceStatsMonitorOptions {
  std::optional<bool> cpu_stats = std::nullopt;

  static void declare(OptionList<DeviceStatsMonitorOptions>& options) {
    options.add(&DeviceStatsMonitorOptions::cpu_stats, "Log the host's processors and memory; null: where devices are its CPU");
  }
};

/// Hands what rank 0's device counts to the loggers, every `log_every_n_steps` steps, in evaluations batches, before and after
/// the batch: `DeviceStatsMonitor.on_train_batch_end/allocated_bytes.all.current`, as PyTorch calls them; and of its host
/// `cpu_percent`, `cpu_vm_percent` and `cpu_swap_percent`. A sanity check is left out.
class DeviceStatsMonitor final : public WithOptions<Callback, DeviceStatsMonitorOptions> {
 public:
  explicit DeviceStatsMonitor(const Options& options) : WithOptions("DeviceStatsMonitor", options) {}

  /// Throws ConfigError when the Trainer has no logger.
  void setup(Trainer& trainer, Module&, Stage stage) override {
    if (stage == Stage::kTrain) detail::require_logger("DeviceStatsMonitor", trainer);
    host_load();
  }
  void on_train_batch_start(Trainer& trainer, Module& module, const Batch&, std::int64_t batch_idx) override {
    if (detail::begins_row(trainer, module, batch_idx)) log(trainer, "on_train_batch_start");
  }
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput&, const Batch&, std::int64_t batch_idx) override {
    if (detail::ends_row(trainer, module, batch_idx)) log(trainer, "on_train_batch_end");
  }
  void on_validation_batch_start(Trainer& trainer, Module&, const Batch&, std::int64_t batch_idx, std::int64_t) override {
    if (is_due(trainer, batch_idx)) log(trainer, "on_validation_batch_start");
  }
  void on_validation_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx,
                               std::int64_t) override {
    if (is_due(trainer, batch_idx)) log(trainer, "on_validation_batch_end");
  }
  void on_test_batch_start(Trainer& trainer, Module&, const Batch&, std::int64_t batch_idx, std::int64_t) override {
    if (is_due(trainer, batch_idx)) log(trainer, "on_test_batch_start");
  }
  void on_test_batch_end(Trainer& trainer, Module&, const StepOutput&, const Batch&, std::int64_t batch_idx,
                         std::int64_t) override {
    if (is_due(trainer, batch_idx)) log(trainer, "on_test_batch_end");
  }

 private:
  static bool is_due(const Trainer& trainer, std::int64_t batch_idx) {
    const std::int64_t every = trainer.options().step_row_interval();
    return every > 0 && (batch_idx + 1) % every == 0 && !trainer.sanity_checking();
  }

  std::map<std::string, double> host_load() {
    std::ifstream meminfo("/proc/meminfo");
    std::ifstream stat("/proc/stat");
    std::map<std::string, double> load = detail::memory_load(meminfo);
    load["cpu_percent"] = processors_.look(stat);
    return load;
  }

  void log(Trainer& trainer, const char* hook) {
    if (!trainer.is_global_zero()) return;
    const Strategy& strategy = trainer.strategy();
    std::map<std::string, double> values = strategy.accelerator().statistics(strategy.device());
    if (options_.cpu_stats.value_or(strategy.device().is_cpu())) values.merge(host_load());
    MetricMap row;
    for (const auto& [name, value] : values) row[format("DeviceStatsMonitor.{}/{}", hook, name)] = value;
    if (!row.empty()) trainer.log_to_loggers(row);
  }

  detail::ProcessorLoad processors_;
};

LEVIN_REGISTER_CALLBACK(DeviceStatsMonitor, "Hand what devices and the host's memory count to the loggers");

}  // namespace levin
