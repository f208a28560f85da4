#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/option_type.h"
#include "levin/core/training_snapshot.h"

namespace levin {

/// What follows a spike.
enum class SpikeAction : std::uint8_t { kWarn, kSkip, kRollback };
template <>
inline constexpr std::array kChoices<SpikeAction> = {Choice{SpikeAction::kWarn, "warn"}, Choice{SpikeAction::kSkip, "skip"},
                                                     Choice{SpikeAction::kRollback, "rollback"}};

/// Where the state of a rollback comes from.
enum class RollbackTo : std::uint8_t { kMemory, kCheckpoint };
template <>
inline constexpr std::array kChoices<RollbackTo> = {Choice{RollbackTo::kMemory, "memory"},
                                                    Choice{RollbackTo::kCheckpoint, "checkpoint"}};

struct LEVIN_API SpikeGuardOptions {
  SpikeAction action = SpikeAction::kSkip;
  std::int64_t window = 128;                          ///< steps whose mean and deviation a step is compared with
  std::int64_t warmup = 64;                           ///< steps before the first that is compared, at most window
  std::optional<double> threshold_loss = 6;           ///< deviations above the mean; unset: any finite loss is good
  std::optional<double> threshold_gradient_norm = 6;  ///< the same; unset: no norm is computed
  RollbackTo rollback_to = RollbackTo::kMemory;       ///< checkpoint: the newest that this fit has written or begun from
  std::int64_t every_n_steps = 100;                   ///< steps from one state in memory to the next
  double lr_factor = 1;                               ///< of learning rates, with each rollback
  std::int64_t max_rollbacks = 5;                     ///< one more is an error

  static void declare(OptionList<SpikeGuardOptions>& options);
};

/// Looks, before an optimizer steps, whether the loss (the mean over all samples of the step) or the norm of its gradients
/// leaps above what it was in the steps before. Then it leaves the step out, with all that it would have changed, buffers too;
/// or goes back to the last good state, from which training continues with the next batches. What is not a finite number is a
/// spike, in warm-up too. A spike enters mean and deviation as the largest value that is not a spike, so that a level that
/// stays high is one for a while only. The rule is that of OLMo-core's SkipStepOptimizer; going back and leaving out data
/// PaLM's (Chowdhery et al. 2022, 5.1), lower rates Marian's.
///
/// Ranks: all; where there are several, an exchange of 24 bytes a step. The host waits for a device's loss and norm in each
/// step, after what cuda_graph records. Clipping takes the same norm.
class LEVIN_API SpikeGuard final : public WithOptions<Callback, SpikeGuardOptions> {
 public:
  explicit SpikeGuard(const Options& options = {}) : WithOptions("SpikeGuard", options) {}

  /// So that others see gradients before, and a rank without a batch takes part.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }
  /// The steps that were spikes, by global_step() before them.
  const std::vector<std::int64_t>& spikes() const { return state_.spikes; }
  std::int64_t skipped() const { return state_.skipped; }
  std::int64_t rollbacks() const { return state_.rollbacks; }

  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  /// Throws MisuseError for an optimizer that may change parameters without gradients, unless the action is to warn.
  void on_train_start(Trainer& trainer, Module& module) override;
  void on_train_batch_start(Trainer& trainer, Module& module, const Batch& batch, std::int64_t batch_idx) override;
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;
  /// Throws TrainingSpikeError, on every rank, for a spike after max_rollbacks.
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_fit_end(Trainer& trainer, Module& module) override;
  void on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) override;
  void on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) override;

 private:
  /// A step of an optimizer, as all ranks know it: its number, the optimizer's, the loss, and the gradients' norm.
  using Step = std::tuple<std::int64_t, std::int64_t, std::optional<double>, std::optional<double>>;
  /// Under the names that a checkpoint has.
  struct State {
    std::vector<std::vector<double>> earlier;  ///< losses and norms of each optimizer, one list after the other
    std::vector<Step> steps_of_batch;          ///< of the batch in work: what follows from them follows at its end
    std::int64_t steps = 0;
    std::vector<std::int64_t> spikes;
    std::int64_t skipped = 0;
    std::int64_t rollbacks = 0;
  };

  Step observe(Trainer& trainer, const torch::optim::Optimizer& optimizer) const;
  /// The most that is not a spike of such values; infinite in warm-up and without a threshold.
  double limit(std::size_t which, const std::vector<double>& earlier) const;
  /// What has leapt; empty: nothing.
  std::string spike_in(const Step& step) const;
  void add_to_history(const Step& step);
  /// What snapshot_ holds with these options; unset: nothing.
  std::optional<TrainingSnapshot::Parts> snapshot_parts() const;
  void roll_back(Trainer& trainer, const std::string& spike, std::int64_t batch_idx);

  State state_;
  TrainingSnapshot snapshot_;  ///< what a rollback goes back to; to skip a step, the buffers before it
};

}  // namespace levin
