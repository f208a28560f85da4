#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/config/value.h"
#include "levin/core/protocol/metrics.h"

namespace levin {

/// Sets the order of callbacks, so that monitors see what the module logged in the same hook.
enum class CallbackPhase : std::uint8_t {
  kNormal,     ///< in the order given
  kProgress,   ///< progress bar and summary, after the user's
  kMonitor,    ///< decides on metrics: on_train_epoch_end runs after the module's and after the boundary
  kCheckpoint  ///< saves state: last in every hook, after the module; on_train_epoch_end after the epoch's row is written
};

/// An action at the hooks of a run. Derive, override what you need, register the class. Every hook runs on every rank, before
/// the module's of the same name. Log with `module.log(…)`. Example: callbacks/early_stopping.h.
class LEVIN_API Callback {
 public:
  virtual ~Callback();

  virtual CallbackPhase phase() const { return CallbackPhase::kNormal; }
  /// It saves the run: its phase is kCheckpoint.
  bool saves_state() const { return phase() == CallbackPhase::kCheckpoint; }
  /// The class's name without namespaces.
  std::string class_name() const;
  /// The name under which its state is saved. Two callbacks of one class need different keys. Default: the class's name.
  virtual std::string state_key() const;
  /// The state that a checkpoint stores; null: none. `ckpt_path: best` and the tables of runs know the files of a callback that
  /// saves checkpoints when its state names them as ModelCheckpoint's does (core/config/saved_checkpoints.h).
  virtual Value state_dict() const { return {}; }
  /// Restores it, before optimizers are made.
  virtual void load_state_dict(const Value&) {}

  /// The folder of this callback's checkpoints, which `ckpt_path: best` and `last` search first. Called: before setup().
  /// Default: empty, `checkpoints` in the run's folder.
  virtual std::string checkpoint_folder() const { return {}; }

  /// The options that this callback was made with. Ranks compare them before a run starts: a difference is an error that names
  /// it. Default: null, ranks compare the class only.
  virtual Value settings() const { return {}; }

  /// At the beginning of fit, validate, test and predict. log(): no.
  virtual void setup(Trainer&, Module&, Stage) {}
  /// At the end of every entry point, after an exception too. log(): no.
  virtual void teardown(Trainer&, Module&, Stage) {}
  /// At the beginning of fit. log(): no.
  virtual void on_fit_start(Trainer&, Module&) {}
  /// At the end of fit. log(): no.
  virtual void on_fit_end(Trainer&, Module&) {}
  /// Before the sanity check. log(): no.
  virtual void on_sanity_check_start(Trainer&, Module&) {}
  /// After the sanity check. log(): no.
  virtual void on_sanity_check_end(Trainer&, Module&) {}
  /// Before the first epoch. log(): epoch only.
  virtual void on_train_start(Trainer&, Module&) {}
  /// After the last epoch. log(): no.
  virtual void on_train_end(Trainer&, Module&) {}
  /// Before each training epoch. log(): epoch only.
  virtual void on_train_epoch_start(Trainer&, Module&) {}
  /// After each training epoch and its validation. log(): epoch only.
  virtual void on_train_epoch_end(Trainer&, Module&) {}
  /// Before each training batch. log(): step.
  virtual void on_train_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/) {}
  /// After each training batch. log(): step. output.loss is divided by accumulate_grad_batches and detached, as in Lightning.
  /// On a rank that has run out of batches before others, callbacks of the phases kMonitor and kCheckpoint get an empty batch;
  /// others are not called.
  virtual void on_train_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t /*batch_idx*/) {}
  /// Before gradients are reset. log(): step.
  virtual void on_before_zero_grad(Trainer&, Module&, torch::optim::Optimizer&) {}
  /// Before the backward pass. log(): step.
  virtual void on_before_backward(Trainer&, Module&, const at::Tensor&) {}
  /// After the backward pass. log(): step.
  virtual void on_after_backward(Trainer&, Module&) {}
  /// Before each optimizer step, when gradients are complete. log(): step.
  virtual void on_before_optimizer_step(Trainer&, Module&, torch::optim::Optimizer&) {}

  /// At the beginning of validation. log(): epoch only.
  virtual void on_validation_start(Trainer&, Module&) {}
  /// At the end of validation. log(): no.
  virtual void on_validation_end(Trainer&, Module&) {}
  /// Before the first batch of validation. log(): epoch only.
  virtual void on_validation_epoch_start(Trainer&, Module&) {}
  /// After the last batch of validation. log(): epoch only.
  virtual void on_validation_epoch_end(Trainer&, Module&) {}
  /// Before each validation batch. log(): epoch.
  virtual void on_validation_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/,
                                         std::int64_t /*dataloader_idx*/) {}
  /// After each validation batch. log(): epoch.
  virtual void on_validation_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t /*batch_idx*/,
                                       std::int64_t /*dataloader_idx*/) {}
  /// At the beginning of testing. log(): epoch only.
  virtual void on_test_start(Trainer&, Module&) {}
  /// At the end of testing. log(): no.
  virtual void on_test_end(Trainer&, Module&) {}
  /// Before the first batch of testing. log(): epoch only.
  virtual void on_test_epoch_start(Trainer&, Module&) {}
  /// After the last batch of testing. log(): epoch only.
  virtual void on_test_epoch_end(Trainer&, Module&) {}
  /// Before each test batch. log(): epoch.
  virtual void on_test_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/,
                                   std::int64_t /*dataloader_idx*/) {}
  /// After each test batch. log(): epoch.
  virtual void on_test_batch_end(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t /*batch_idx*/,
                                 std::int64_t /*dataloader_idx*/) {}
  /// At the beginning of prediction. log(): no.
  virtual void on_predict_start(Trainer&, Module&) {}
  /// At the end of prediction. log(): no.
  virtual void on_predict_end(Trainer&, Module&) {}
  /// Before the first batch of prediction. log(): no.
  virtual void on_predict_epoch_start(Trainer&, Module&) {}
  /// After the last batch of prediction. log(): no.
  virtual void on_predict_epoch_end(Trainer&, Module&) {}
  /// Before each prediction batch. log(): no.
  virtual void on_predict_batch_start(Trainer&, Module&, const Batch&, std::int64_t /*batch_idx*/,
                                      std::int64_t /*dataloader_idx*/) {}
  /// After each prediction batch. log(): no.
  virtual void on_predict_batch_end(Trainer&, Module&, const Batch& /*prediction*/, const Batch&, std::int64_t /*batch_idx*/,
                                    std::int64_t /*dataloader_idx*/) {}

  /// After each row of metrics: the row, and every rank's unreduced values of it, by rank; a rank that did not log a key lacks
  /// it. All ranks get the same, so decisions from it agree. log(): no.
  virtual void on_rank_metrics(Trainer&, Module&, const MetricRow&, const std::vector<MetricMap>& /*by_rank*/) {}

  /// After an error, on the rank that failed; must not communicate. log(): no.
  virtual void on_exception(Trainer&, Module&, const std::exception&) {}
  /// Adds to a checkpoint. log(): no.
  virtual void on_save_checkpoint(Trainer&, Module&, Checkpoint&) {}
  /// Reads what on_save_checkpoint() added. log(): no.
  virtual void on_load_checkpoint(Trainer&, Module&, const Checkpoint&) {}
};

/// What all ranks together did in an evaluation.
struct LEVIN_API EvaluationTotals {
  std::int64_t batches = 0;  ///< of the rank that had most
  std::int64_t samples = 0;  ///< of all ranks
};

}  // namespace levin
