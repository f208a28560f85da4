#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/optimizers/described_optimizer.h"

namespace levin {

struct LEVIN_API WeightAveragingOptions {
  std::optional<std::string> device = std::nullopt;  ///< where averages are kept, such as "cpu"; unset: the module's
  bool use_buffers = true;                           ///< average buffers too; else they are the module's own

  static void declare(OptionList<WeightAveragingOptions>& options);
};

/// Keeps an average of a module's weights: here the mean of all that should_update() chooses, after each step by default. It is
/// what is evaluated (EvaluatedWeights): validation sees it, and so does who has the module after fit(); training never does.
/// Until something has been averaged, that is the module's own weights. Integers, such as a count of batches, are not averaged:
/// the last ones count.
///
/// To choose when weights are averaged, derive and override should_update(); to weigh them differently, share().
class LEVIN_API WeightAveraging : public WithOptions<Callback, WeightAveragingOptions>, public EvaluatedWeights {
 public:
  explicit WeightAveraging(Options options = {});

  /// So that a rank without a batch averages when its weights change, too.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  /// Whether to take the weights in after this step of an optimizer, or after this epoch; both count from 0, the other is
  /// unset. All ranks answer alike.
  virtual bool should_update(std::optional<std::int64_t> step, std::optional<std::int64_t> epoch) const;
  /// How much the weights count against the average of those before, of which there are so many.
  virtual double share(std::int64_t averaged) const { return 1.0 / static_cast<double>(averaged + 1); }
  /// How often weights have been taken in.
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
  /// What stands for a tensor of the module; undefined where nothing does yet.
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
    std::int64_t latest_update_step = 0;    ///< steps of optimizers when weights were taken in last
    std::int64_t latest_update_epoch = -1;  ///< after which they were taken in last
  };
  State state_;
};

}  // namespace levin
