#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "levin/core/fwd.h"
#include "levin/core/metric_row.h"
#include "levin/core/options/value.h"
#include "levin/core/protocol/hook.h"

namespace levin {

/// Decides in which order callbacks run, and that monitors see what the module logged in the same hook.
enum class CallbackPhase : std::uint8_t {
  kNormal,     ///< in the order given
  kProgress,   ///< progress bar and summary, after the user's
  kMonitor,    ///< decides on metrics: on_train_epoch_end runs after the module's and after the boundary
  kCheckpoint  ///< saves state: last of all in every hook, after the module; on_train_epoch_end when the epoch is written down
};

/// Something that happens at the hooks of a run. Derive, override what you need, register the class.
/// Every hook runs on every rank, before the module's hook of the same name. A callback logs with `module.log(…)`.
/// Example: callbacks/learning_rate_monitor.h.
class Callback {
 public:
  virtual ~Callback();

  virtual CallbackPhase phase() const { return CallbackPhase::kNormal; }
  /// The class's name without namespaces.
  std::string class_name() const;
  /// Under which name the state is saved. Two callbacks of one class need different keys. Default: the class's name.
  virtual std::string state_key() const;
  /// What a checkpoint keeps; null for nothing.
  virtual Value state_dict() const { return {}; }
  virtual void load_state_dict(const Value&) {}

  /// The options that this callback was made with. Ranks compare them before a run starts: a difference is an error that names
  /// it. Default: null, which compares the class alone.
  virtual Value settings() const { return {}; }

  virtual void setup(Trainer&, Module&, Stage) {}
  virtual void teardown(Trainer&, Module&, Stage) {}
  virtual void on_fit_start(Trainer&, Module&) {}
  virtual void on_fit_end(Trainer&, Module&) {}
  virtual void on_sanity_check_start(Trainer&, Module&) {}
  virtual void on_sanity_check_end(Trainer&, Module&) {}
  virtual void on_train_start(Trainer&, Module&) {}
  virtual void on_train_end(Trainer&, Module&) {}
  virtual void on_train_epoch_start(Trainer&, Module&) {}
  virtual void on_train_epoch_end(Trainer&, Module&) {}
  virtual void on_train_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/) {}
  /// output.loss is divided by accumulate_grad_batches and detached, as in the reference. On a rank that has no batch left,
  /// while others have, callbacks of the phases kMonitor and kCheckpoint get an empty batch; others are not called.
  virtual void on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t /*batch_idx*/) {}
  virtual void on_before_zero_grad(Trainer&, Module&, torch::optim::Optimizer&) {}
  virtual void on_before_backward(Trainer&, Module&, const at::Tensor&) {}
  virtual void on_after_backward(Trainer&, Module&) {}
  virtual void on_before_optimizer_step(Trainer&, Module&, torch::optim::Optimizer&) {}

  virtual void on_validation_start(Trainer&, Module&) {}
  virtual void on_validation_end(Trainer&, Module&) {}
  virtual void on_validation_epoch_start(Trainer&, Module&) {}
  virtual void on_validation_epoch_end(Trainer&, Module&) {}
  virtual void on_validation_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/,
                                         std::int64_t /*dataloader_idx*/) {}
  virtual void on_validation_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t /*batch_idx*/,
                                       std::int64_t /*dataloader_idx*/) {}
  virtual void on_test_start(Trainer&, Module&) {}
  virtual void on_test_end(Trainer&, Module&) {}
  virtual void on_test_epoch_start(Trainer&, Module&) {}
  virtual void on_test_epoch_end(Trainer&, Module&) {}
  virtual void on_test_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/,
                                   std::int64_t /*dataloader_idx*/) {}
  virtual void on_test_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t /*batch_idx*/,
                                 std::int64_t /*dataloader_idx*/) {}
  virtual void on_predict_start(Trainer&, Module&) {}
  virtual void on_predict_end(Trainer&, Module&) {}
  virtual void on_predict_epoch_start(Trainer&, Module&) {}
  virtual void on_predict_epoch_end(Trainer&, Module&) {}
  virtual void on_predict_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/,
                                      std::int64_t /*dataloader_idx*/) {}
  virtual void on_predict_batch_end(Trainer&, Module&, const Batch& /*prediction*/, const Batch&, std::int64_t /*batch_idx*/,
                                    std::int64_t /*dataloader_idx*/) {}

  /// Called: after each boundary that gives a row, with the row and, by rank, every rank's own unreduced values of it; a rank
  /// that did not log a key lacks it. The same on all ranks, so what is decided from it is decided alike. Must not log.
  virtual void on_rank_metrics(Trainer&, Module&, const MetricRow&, const std::vector<MetricMap>& /*by_rank*/) {}

  /// Called: on the rank that failed, before the error leaves the Trainer. Must not communicate.
  virtual void on_exception(Trainer&, Module&, const std::exception&) {}
  /// Called: on every rank, while a checkpoint is put together or read.
  virtual void on_save_checkpoint(Trainer&, Module&, Checkpoint&) {}
  virtual void on_load_checkpoint(Trainer&, Module&, const Checkpoint&) {}
};

}  // namespace levin
