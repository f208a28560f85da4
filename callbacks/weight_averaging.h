#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/trainer_values.h"
#include "levin/core/optimizers/described_optimizer.h"

namespace levin {

struct LEVIN_API WeightAveragingOptions {
  std::optional<std::string> device = std::nullopt;  ///< where averages are stored, such as "cpu"; unset: the module's
  bool use_buffers = true;                           ///< average buffers too; else they are the module's own

  static void declare(OptionList<WeightAveragingOptions>& options);
};

/// Keeps an average of a module's weights: here the mean of all that should_update() chooses, after each step by default. It is
/// what is evaluated (EvaluatedWeights): validation sees it, and after fit() the module has it; training never sees it.
/// Until something has been averaged, that is the module's own weights. Integers, such as a count of batches, are not averaged:
/// the last ones count.
///
/// To choose when weights are averaged, derive and override should_update(); to weigh them differently, share().
class LEVIN_API WeightAveraging : public WithOptions<Callback, WeightAveragingOptions>, public EvaluatedWeights {
 public:
  explicit WeightAveraging(Options options = {});

  /// So that a rank without a batch averages when its weights change, too.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  /// Whether to average the weights after this step of an optimizer, or after this epoch; both count from 0, the other is
  /// unset. Ranks: all, with the same result.
  virtual bool should_update(std::optional<std::int64_t> step, std::optional<std::int64_t> epoch) const;
  /// How much the weights count against the average of those before, of which there are so many.
  virtual double share(std::int64_t averaged) const { return 1.0 / static_cast<double>(averaged + 1); }
  /// How often weights have been averaged.
  std::int64_t averaged() const { return averaged_; }

  std::vector<WeightPair> evaluated_weights() const override { return weights_; }
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) override;
  void on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) override;

 protected:
  /// The average of a tensor of the module; undefined before the first.
  at::Tensor average_of(const at::Tensor& tensor) const;

 private:
  void clear();
  void start(const Module& module, const Checkpoint& saved);
  void update(const Module& module);

  std::vector<WeightPair> weights_;       ///< each tensor of the module once
  std::vector<at::Tensor> averaged_own_;  ///< those of them that are averaged, and below their averages
  std::vector<at::Tensor> averages_;
  std::vector<WeightPair> copied_;  ///< the others
  std::int64_t averaged_ = 0;
  /// Under Lightning's names.
  struct State {
    std::int64_t latest_update_step = 0;    ///< steps of optimizers when weights were last averaged
    std::int64_t latest_update_epoch = -1;  ///< after which they were last averaged
  };
  State state_;
};

struct LEVIN_API EMAWeightAveragingOptions {
  std::optional<std::string> device = std::nullopt;
  bool use_buffers = true;
  double decay = 0.999;
  std::int64_t update_every_n_steps = 1;  ///< 0: not after steps
  std::optional<std::int64_t> update_starting_at_step = std::nullopt;
  std::optional<std::int64_t> update_starting_at_epoch = std::nullopt;  ///< unset: not after epochs

  static void declare(OptionList<EMAWeightAveragingOptions>& options);
};

/// An exponential moving average of weights: average = decay × average + (1 - decay) × weights. The first ones
/// are the first average.
class LEVIN_API EMAWeightAveraging final : public WeightAveraging {
 public:
  using Options = EMAWeightAveragingOptions;
  explicit EMAWeightAveraging(const Options& options = {});

  Value settings() const override { return write_options(ema_); }
  bool should_update(std::optional<std::int64_t> step, std::optional<std::int64_t> epoch) const override;
  double share(std::int64_t) const override { return 1 - ema_.decay; }

 private:
  Options ema_;
};

struct LEVIN_API StochasticWeightAveragingOptions {
  Value swa_lrs = {};           ///< a number, or a list with one for each parameter group
  Limit swa_epoch_start = 0.8;  ///< an epoch, from 1, or a share of max_epochs
  std::int64_t annealing_epochs = 10;
  std::string annealing_strategy = "cos";
  std::optional<std::string> device = "cpu";

  static void declare(OptionList<StochasticWeightAveragingOptions>& options);
};

/// Averages the weights that epochs end with (Izmailov et al. 2018), while the learning rate stays at `swa_lrs`: the one before
/// epoch swa_epoch_start and each from there on. SWALR replaces the schedulers at that epoch's start. When training
/// ends, statistics such as BatchNorm's are computed again for the average, in one pass over the training data, of which each
/// rank takes its part; where max_epochs says so, before the last validation. Until then they are averages themselves. Needs
/// one optimizer, under automatic optimization.
class LEVIN_API StochasticWeightAveraging : public WeightAveraging {
 public:
  using Options = StochasticWeightAveragingOptions;
  explicit StochasticWeightAveraging(const Options& options);

  Value settings() const override { return write_options(swa_); }
  bool should_update(std::optional<std::int64_t> step, std::optional<std::int64_t> epoch) const override;
  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void on_fit_start(Trainer& trainer, Module& module) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_training_done(Trainer& trainer, Module& module) override;
  void on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) override;
  void on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) override;

 private:
  /// `lr`: swa_lrs, or a number where a checkpoint's state comes next.
  void replace_schedulers(Trainer& trainer, const Value& lr) const;
  /// Of the average, where they are not its own yet.
  void renew_statistics(Trainer& trainer, Module& module);

  Options swa_;
  std::int64_t first_epoch_ = 0;  ///< at whose start SWALR takes over, from 0
  bool has_taken_over_ = false;
  std::int64_t statistics_of_ = 0;                        ///< how many weights had been averaged when statistics were computed
  std::int64_t statistics_before_end_ = 0;                ///< the same, before training's end
  std::map<std::string, at::Tensor> buffers_before_end_;  ///< by name; empty: the end has changed none
};

}  // namespace levin
