#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/lr_expression.h"
#include "levin/core/config/trainer_values.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class OptimizerParamGroup;
}

namespace levin {

/// Trains parts of a module later than the rest: derive, freeze in freeze_before_training() what is to wait, and unfreeze it in
/// finetune_function(). What is frozen and in which parameter groups is kept by every checkpoint, so that a resumed fit goes on
/// with it, on any number of ranks.
///
/// To freeze a part is to take its parameters out of training. Its BatchNorm layers, of any class with that in its name, then
/// normalize as in evaluation and keep their statistics; Lightning's normalize by the batch meanwhile.
class LEVIN_API BaseFinetuning : public Callback {
 public:
  /// Before a fit makes its optimizers, which take what requires a gradient. The module has what its constructor registers.
  virtual void freeze_before_training(Module& module) = 0;
  /// At the start of each training epoch, for each optimizer, and once more in a run that resumes within that epoch.
  virtual void finetune_function(Module& module, std::int64_t epoch, torch::optim::Optimizer& optimizer) = 0;

  /// The parameters of a module and of those below it that require a gradient, or those that do not, without those of
  /// BatchNorm layers unless `train_bn`.
  static std::vector<at::Tensor> filter_params(const torch::nn::Module& module, bool train_bn = true,
                                               bool requires_grad = true);
  /// All of a module is frozen; with `train_bn` its BatchNorm layers are trained. Other layers stay in the mode they are in.
  static void freeze(torch::nn::Module& module, bool train_bn = true);
  /// All of a module is trained, without `train_bn` its BatchNorm layers excepted, and what the optimizer does not have yet is
  /// a new parameter group of the rate `lr`; unset: of the first group's, divided by initial_denom_lr. Other options are the
  /// optimizer's defaults. Warns of parameters that the optimizer has already, and leaves them in their group.
  static void unfreeze_and_add_param_group(torch::nn::Module& module, torch::optim::Optimizer& optimizer,
                                           std::optional<double> lr = std::nullopt, double initial_denom_lr = 10.0,
                                           bool train_bn = true);

  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void on_train_epoch_start(Trainer& trainer, Module& module) override;
};

struct LEVIN_API BackboneFinetuningOptions {
  std::string backbone = "backbone";  ///< the submodule's name; "encoder.layers" for one below another
  std::int64_t unfreeze_backbone_at_epoch = 10;
  LrExpression lambda_func = "2";  ///< factor of the backbone's rate in each epoch after that, of the epoch plus 1
  double backbone_initial_ratio_lr = 0.1;
  std::optional<double> backbone_initial_lr = std::nullopt;  ///< unset: the first group's times backbone_initial_ratio_lr
  bool should_align = true;                                  ///< the backbone's rate never rises above the first group's
  double initial_denom_lr = 10.0;                            ///< has no effect, as in Lightning: the rate is always given
  bool train_bn = true;                                      ///< its BatchNorm layers are trained, from the first epoch on
  bool verbose = false;                                      ///< show both rates in each epoch
  std::int64_t rounding = 12;                                ///< decimals shown

  static void declare(OptionList<BackboneFinetuningOptions>& options);
};

/// Trains a part of a module, its backbone, from an epoch on, with a rate that grows to that of the rest. It is added to the
/// first optimizer. A fit that begins behind that epoch, from a checkpoint without this callback, unfreezes it at once.
class LEVIN_API BackboneFinetuning : public WithOptions<BaseFinetuning, BackboneFinetuningOptions> {
 public:
  explicit BackboneFinetuning(Options options = {});

  /// The factor of lambda_func; to compute it, override this.
  virtual double factor(std::int64_t epoch) const { return options_.lambda_func(epoch); }
  /// Unset until the backbone is unfrozen.
  std::optional<double> previous_backbone_lr() const { return state_.previous_backbone_lr; }

  Value state_dict() const override;
  void load_state_dict(const Value& state) override;
  /// Throws ConfigError when the module has no such submodule.
  void freeze_before_training(Module& module) override;
  void finetune_function(Module& module, std::int64_t epoch, torch::optim::Optimizer& optimizer) override;

 private:
  torch::nn::Module& backbone_of(const Module& module) const;

  struct State {
    std::optional<double> previous_backbone_lr;
    std::int64_t latest_epoch = -1;  ///< whose rate it is
  };
  State state_;
};

/// What is pruned: the smallest weights or any, single ones or whole channels.
enum class PruningFunction : std::uint8_t { kL1Unstructured, kLnStructured, kRandomUnstructured, kRandomStructured };
template <>
inline constexpr std::array kChoices<PruningFunction> = {Choice{PruningFunction::kL1Unstructured, "l1_unstructured"},
                                                         Choice{PruningFunction::kLnStructured, "ln_structured"},
                                                         Choice{PruningFunction::kRandomUnstructured, "random_unstructured"},
                                                         Choice{PruningFunction::kRandomStructured, "random_structured"}};

struct LEVIN_API ModelPruningOptions {
  PruningFunction pruning_fn = PruningFunction::kL1Unstructured;
  std::vector<std::string> parameters_to_prune = {};  ///< "head.weight"; empty: those of all layers called as below
  std::vector<std::string> parameter_names = {"weight", "bias"};
  bool use_global_unstructured = true;  ///< choose among all of them together, not in each by itself
  Limit amount = 0.5;                   ///< of what is left each time: a share, or so many weights or channels
  bool apply_pruning = true;
  bool make_pruning_permanent = true;                       ///< false is refused: weights themselves are pruned here
  bool use_lottery_ticket_hypothesis = true;                ///< the rest goes back to the weights that training began with
  bool resample_parameters = false;                         ///< or is drawn anew, where a layer has weights of two dimensions
  std::optional<std::int64_t> pruning_dim = std::nullopt;   ///< of channels; -1 is the last
  std::optional<std::int64_t> pruning_norm = std::nullopt;  ///< by which channels are compared
  std::int64_t verbose = 0;                                 ///< 1: tell how much is pruned; 2: of each parameter too
  bool prune_on_train_epoch_end = true;                     ///< else where a validation ends

  static void declare(OptionList<ModelPruningOptions>& options);
};

/// Sets weights to zero after each epoch, and keeps them there: their gradients are zero, and so are they after each batch.
/// Checkpoints have the pruned weights, and which these are. To choose by epoch, which counts from 0, derive; all ranks have to
/// choose alike.
class LEVIN_API ModelPruning : public WithOptions<Callback, ModelPruningOptions> {
 public:
  explicit ModelPruning(Options options);

  /// So that it acts on a rank without a batch, too.
  CallbackPhase phase() const override { return CallbackPhase::kMonitor; }

  virtual Limit amount(std::int64_t /*epoch*/) const { return options_.amount; }
  /// Asked with apply_pruning and use_lottery_ticket_hypothesis.
  virtual bool prunes_in(std::int64_t /*epoch*/) const { return true; }
  virtual bool goes_back_in(std::int64_t /*epoch*/) const { return true; }

  void setup(Trainer& trainer, Module& module, Stage stage) override;
  void on_fit_start(Trainer& trainer, Module& module) override;
  void on_before_optimizer_step(Trainer& trainer, Module& module, torch::optim::Optimizer& optimizer) override;
  void on_train_batch_end(Trainer& trainer, Module& module, const StepOutput& output, const Batch& batch,
                          std::int64_t batch_idx) override;
  void on_train_epoch_end(Trainer& trainer, Module& module) override;
  void on_train_end(Trainer& trainer, Module& module) override;
  void on_validation_end(Trainer& trainer, Module& module) override;
  void on_save_checkpoint(Trainer& trainer, Module& module, Checkpoint& checkpoint) override;
  void on_load_checkpoint(Trainer& trainer, Module& module, const Checkpoint& checkpoint) override;

 private:
  struct Target {
    std::string name;
    at::Tensor parameter;
    at::Tensor pruned;   ///< true for each weight that is
    at::Tensor initial;  ///< undefined without use_lottery_ticket_hypothesis
  };
  void find_targets(const Module& module);
  /// What other ModelPrunings of the run have pruned of the same parameters is pruned here, too.
  void take_in_others(const Trainer& trainer);
  void prune(Trainer& trainer, const Module& module);
  void prune_weights(Trainer& trainer, const Limit& amount, std::span<Target> together);
  void prune_channels(Trainer& trainer, const Limit& amount, Target& target);
  void go_back(Trainer& trainer, const Module& module);
  void apply();
  /// "20/49 (40.82%)", and the same of each parameter where that is to be told.
  std::string pruned_text() const;

  std::vector<Target> targets_;
  bool has_pruned_ = false;
};

}  // namespace levin
