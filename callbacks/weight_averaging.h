#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"

namespace levin {

struct LEVIN_API WeightAveragingOptions {
  std::optional<std::string> device = std::nullopt;  ///< where averages are kept, such as "cpu"; unset: the module's
  bool use_buffers = true;                           ///< average buffers too; else they are the module's own

  static void declare(OptionList<WeightAveragingOptions>& options);
};

/// Keeps an average of a module's weights: here the mean of all that should_update() chooses, after each step by default.
/// Validation sees the average, and so does who has the module after fit(); training never does. Until something has been
/// averaged there is no average, and validation sees the module's own weights. Integers, such as a count of batches, are not
/// averaged: the last ones count.
///
/// In checkpoints `state_dict` is the average, which test, predict and export take; `current_model_state` has the weights that
/// a resumed fit goes on with. Both are right from whichever hook a checkpoint is saved.
///
/// To choose when weights are averaged, derive and override should_update(); to weigh them differently, share().
class LEVIN_API WeightAveraging : public WithOptions<Callback, WeightAveragingOptions> {
 public:
  explicit WeightAveraging(Options options = {});
  ~WeightAveraging() override;

  /// So that a rank without a batch averages when its weights change, too.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  /// Whether to take the weights in after this step of an optimizer, or after this epoch; both count from 0, the other is
  /// unset. All ranks answer alike.
  virtual bool should_update(std::optional<std::int64_t> step, std::optional<std::int64_t> epoch) const;
  /// How much the weights count against the average of those before, of which there are so many.
  virtual double share(std::int64_t averaged) const { return 1.0 / static_cast<double>(averaged + 1); }
  /// How often weights have been taken in.
  std::int64_t averaged() const { return averaged_; }

  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void teardown(Trainer& trainer, Module& module, Stage stage) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_fit_end(Trainer& trainer, Module& module) override;
  void on_validation_epoch_start(Trainer& trainer, Module& module) override;
  void on_validation_epoch_end(Trainer& trainer, Module& module) override;
  void on_exception(Trainer& trainer, Module& module, const std::exception& error) override;
  void on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) override;
  void on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) override;

 private:
  void start(Module& module);
  void add(const std::string& name, const at::Tensor& tensor, bool takes_part);
  void update(Module& module);
  void swap();

  std::map<std::string, std::size_t> names_;  ///< of the module's tensors; one that has two names is there once
  std::vector<at::Tensor> own_;               ///< the module's
  std::vector<at::Tensor> averages_;
  std::vector<at::Tensor> averaged_own_;  ///< those that are averaged, and below their averages
  std::vector<at::Tensor> averaged_averages_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copied_;  ///< the module's, and what stands for it beside the averages
  std::int64_t averaged_ = 0;
  std::int64_t latest_step_ = 0;    ///< steps of optimizers when weights were taken in last
  std::int64_t latest_epoch_ = -1;  ///< after which they were taken in last
  bool fitting_ = false;
  bool is_swapped_ = false;  ///< the module has the averages, and averages_ what is trained
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

/// An exponential moving average of weights: average = decay × average + (1 - decay) × weights. The first ones are taken as
/// they are.
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

}  // namespace levin
