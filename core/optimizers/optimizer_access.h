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

/// The options of a parameter group by PyTorch's names, for LibTorch's optimizers and each DescribedOptimizer. An empty map for
/// other classes.
LEVIN_API Value option_values(const torch::optim::OptimizerOptions& options);
/// Sets every option to its value. Throws ConfigError when a value is missing or invalid; other keys in `values` are ignored.
LEVIN_API void set_option_values(torch::optim::OptimizerOptions& options, const Value& values);

/// The learning rate of a parameter group, of any optimizer.
LEVIN_API double get_lr(const torch::optim::OptimizerParamGroup& group);
LEVIN_API void set_lr(torch::optim::OptimizerParamGroup& group, double lr);
/// The learning rate of every parameter group.
LEVIN_API std::vector<double> get_lrs(const torch::optim::Optimizer& optimizer);

/// The momentum of a group; unset for an optimizer without it. Like betas and weight decay, it is an option of LibTorch's
/// optimizers, or of a DescribedOptimizer.
LEVIN_API std::optional<double> get_momentum(const torch::optim::OptimizerParamGroup& group);
/// Throws MisuseError when the optimizer has no momentum.
LEVIN_API void set_momentum(torch::optim::OptimizerParamGroup& group, double momentum);

/// The betas of a group; unset for an optimizer without them.
LEVIN_API std::optional<std::pair<double, double>> get_betas(const torch::optim::OptimizerParamGroup& group);
/// Throws MisuseError when the optimizer has no betas.
LEVIN_API void set_betas(torch::optim::OptimizerParamGroup& group, std::pair<double, double> betas);

/// The weight decay of a group; nothing for an optimizer that has none.
LEVIN_API std::optional<double> get_weight_decay(const torch::optim::OptimizerParamGroup& group);

/// True when each parameter's step depends only on its own gradient and state, and the state is accessible: all of LibTorch's
/// except LBFGS, and each DescribedOptimizer that says so.
LEVIN_API bool steps_parameters_alone(const torch::optim::Optimizer& optimizer);

/// The class of an optimizer without its namespace: "SGD", "AdamW", or the name of a user's class.
LEVIN_API std::string optimizer_class_name(const torch::optim::Optimizer& optimizer);

/// The parameters of a module and its submodules, parents first, each once and with the first of its names. LibTorch's
/// named_parameters() and parameters() repeat those that are registered under two names, or whose module is.
LEVIN_API std::vector<std::pair<std::string, at::Tensor>> distinct_parameters(const torch::nn::Module& module);

/// True when this very tensor, not only an equal one, is among `tensors`.
LEVIN_API bool is_one_of(const at::Tensor& tensor, const std::vector<at::Tensor>& tensors);

/// The parameters of all groups, in their order.
LEVIN_API std::vector<at::Tensor> all_parameters(const torch::optim::Optimizer& optimizer);

/// Frees the gradients of all parameters, or sets them to zero. Unlike Optimizer::zero_grad it also works on gradients that are
/// views into the buckets of a c10d::Reducer.
LEVIN_API void zero_grad(torch::optim::Optimizer& optimizer, bool set_to_none = true);

/// The losses of one rank for an optimizer step: of all backward passes since the previous step.
struct LEVIN_API StepLoss {
  double sum = 0;     ///< of losses times their weights
  double weight = 0;  ///< 0: there was no loss
};

/// Makes a fit store the losses of the current step, for loss_of_step(). Called: before the first step, such as in setup().
LEVIN_API void keep_step_losses(const Trainer& trainer);
/// This rank's losses; the mean over ranks is the quotient of the sums over ranks. A loss has the weight of its gradients: its
/// batch's samples where batches have one size on all ranks, else 1, and 1 under manual optimization. Waits for a device.
/// Throws MisuseError without keep_step_losses(). Called: in on_before_optimizer_step.
LEVIN_API StepLoss loss_of_step(const Trainer& trainer);

/// The norm of each gradient, in the order of all_parameters(); undefined without a gradient. In on_before_optimizer_step they
/// are reduced, unscaled and not clipped. 2-norms are computed once per step, and clipping uses the same. `norm_type`: infinity
/// gives the largest absolute value.
LEVIN_API std::vector<at::Tensor> gradient_norms(const Trainer& trainer, const torch::optim::Optimizer& optimizer,
                                                 double norm_type = 2);

/// The total norm of these norms, as torch.nn.utils.get_total_norm gives it; unset when none is defined. Waits for a device
/// once.
LEVIN_API std::optional<double> total_norm(const std::vector<at::Tensor>& norms, double norm_type = 2);

}  // namespace levin
