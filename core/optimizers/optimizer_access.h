#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/fwd.h"
#include "levin/core/config/value.h"
#include "levin/core/protocol/metrics.h"

namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
class OptimizerOptions;
class OptimizerParamGroup;
}  // namespace torch::optim

namespace levin {

struct SchedulerConfig;

/// The options of a parameter group by PyTorch's names: those of LibTorch's optimizers, and of each DescribedOptimizer. An
/// empty map for a class that does not tell them.
LEVIN_API Value option_values(const torch::optim::OptimizerOptions& options);
/// Sets every option to its value. Throws ConfigError when one lacks a value, or cannot have it; others in `values` are left
/// out.
LEVIN_API void set_option_values(torch::optim::OptimizerOptions& options, const Value& values);

/// The learning rate of a parameter group, of any optimizer.
LEVIN_API double get_lr(const torch::optim::OptimizerParamGroup& group);
LEVIN_API void set_lr(torch::optim::OptimizerParamGroup& group, double lr);
/// The learning rate of every parameter group.
LEVIN_API std::vector<double> get_lrs(const torch::optim::Optimizer& optimizer);

/// The momentum of a group; nothing for an optimizer that has none. Like betas and weight decay, it is an option of LibTorch's
/// optimizers, or of a DescribedOptimizer.
LEVIN_API std::optional<double> get_momentum(const torch::optim::OptimizerParamGroup& group);
/// Throws MisuseError when the optimizer has no momentum.
LEVIN_API void set_momentum(torch::optim::OptimizerParamGroup& group, double momentum);

/// The betas of a group; nothing for an optimizer that has none.
LEVIN_API std::optional<std::pair<double, double>> get_betas(const torch::optim::OptimizerParamGroup& group);
/// Throws MisuseError when the optimizer has no betas.
LEVIN_API void set_betas(torch::optim::OptimizerParamGroup& group, std::pair<double, double> betas);

/// The weight decay of a group; nothing for an optimizer that has none.
LEVIN_API std::optional<double> get_weight_decay(const torch::optim::OptimizerParamGroup& group);

/// Whether an optimizer steps each parameter by its own gradient and state, whatever those of others are, and tells its state:
/// LibTorch's but LBFGS, and each DescribedOptimizer that says so.
LEVIN_API bool steps_parameters_alone(const torch::optim::Optimizer& optimizer);

/// The class of an optimizer without its namespace: "SGD", "AdamW", or the name of a class of the user's own.
LEVIN_API std::string optimizer_class_name(const torch::optim::Optimizer& optimizer);

/// The parameters of a module and of those below it, parents first, each once and with the first of its names. Those of
/// LibTorch's named_parameters() and parameters() are repeated where one is registered under two names, or a module in two
/// places.
LEVIN_API std::vector<std::pair<std::string, at::Tensor>> distinct_parameters(const torch::nn::Module& module);

/// Whether a tensor, and not only an equal one, is among these.
LEVIN_API bool is_one_of(const at::Tensor& tensor, const std::vector<at::Tensor>& tensors);

/// The parameters of all groups, in their order.
LEVIN_API std::vector<at::Tensor> all_parameters(const torch::optim::Optimizer& optimizer);

/// Frees the gradients of all parameters, or sets them to zero. Unlike Optimizer::zero_grad it also works on gradients that are
/// views into the buckets of a c10d::Reducer.
LEVIN_API void zero_grad(torch::optim::Optimizer& optimizer, bool set_to_none = true);

/// Losses of one rank, by which a step of the optimizer goes: of all backward passes since the step before.
struct LEVIN_API StepLoss {
  double sum = 0;     ///< of losses times their weights
  double weight = 0;  ///< 0: there was no loss
};

/// From here on a fit keeps the losses of the step under way, for loss_of_step(). Called: before the first step, as in setup().
LEVIN_API void keep_step_losses(const Trainer& trainer);
/// This rank's; the mean over ranks is the quotient of the sums over ranks. A loss weighs as its gradients do: with its batch's
/// samples where batches have one size on all ranks, else 1, and 1 under manual optimization. Waits for a device. Throws
/// MisuseError without keep_step_losses(). Called: in on_before_optimizer_step.
LEVIN_API StepLoss loss_of_step(const Trainer& trainer);

/// The norm of each gradient, in the order of all_parameters(); undefined where there is none: whole on every rank and unscaled
/// in on_before_optimizer_step, and from before gradients were clipped. 2-norms are computed once in a step, and clipping to a
/// norm takes the same. `norm_type`: infinity gives the largest absolute value.
LEVIN_API std::vector<at::Tensor> gradient_norms(const Trainer& trainer, const torch::optim::Optimizer& optimizer,
                                                 double norm_type = 2);

/// The norm of all that have these norms, as torch.nn.utils.get_total_norm gives it; unset when none is defined. Waits for a
/// device once.
LEVIN_API std::optional<double> total_norm(const std::vector<at::Tensor>& norms, double norm_type = 2);

}  // namespace levin
