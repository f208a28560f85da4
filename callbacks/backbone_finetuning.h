#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/callbacks/with_options.h"
#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/config/lr_expression.h"

namespace torch::nn {
class Module;
}

namespace levin {

/// Trains parts of a module later than the rest: derive, freeze these in freeze_before_training(), and unfreeze them in
/// finetune_function(). Every checkpoint records what is frozen and the parameter groups, so that a fit resumes with them
/// on any number of ranks.
///
/// To freeze a part is to take its parameters out of training. Its BatchNorm layers, of any class with that in its name, then
/// normalize as in evaluation and keep their statistics; Lightning's normalize by the batch.
class LEVIN_API BaseFinetuning : public Callback {
 public:
  /// Before a fit makes its optimizers, which take what requires a gradient. The module has what its constructor registers.
  virtual void freeze_before_training(Module& module) = 0;
  /// At the start of each training epoch, for each optimizer, and again in a run that resumes within that epoch.
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

}  // namespace levin
