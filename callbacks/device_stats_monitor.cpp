#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "levin/callbacks/host_load.h"
#include "levin/callbacks/monitoring.h"
#include "levin/callbacks/with_options.h"
#include "levin/core/accelerator.h"
#include "levin/core/base/format.h"
#include "levin/core/batch.h"
#include "levin/core/callback.h"
#include "levin/core/config/registry.h"
#include "levin/core/module.h"
#include "levin/core/strategy.h"
#include "levin/core/trainer.h"

namespace levin {

struct DeviceStatsMonitorOptions {
  std::optional<bool> cpu_stats = std::nullopt;

  static void declare(OptionList<DeviceStatsMonitorOptions>& options) {
    options.add(&DeviceStatsMonitorOptions::cpu_stats, "Log the host's processors and memory; null: if devices are the CPU");
  }
};

/// Logs what rank 0's device counts, every `log_every_n_steps` steps, in evaluations batches, before and after
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
    load["cpu_percent"] = processors_.read(stat);
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

LEVIN_REGISTER_CALLBACK(DeviceStatsMonitor, "Log statistics of devices and of the host's memory");

}  // namespace levin
