#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/fwd.h"

#include "levin/core/export.h"

namespace torch::optim {
class Optimizer;
class OptimizerParamGroup;
}  // namespace torch::optim

namespace levin {

/// The learning rate of a parameter group, of any optimizer.
LEVIN_API double get_lr(const torch::optim::OptimizerParamGroup& group);
LEVIN_API void set_lr(torch::optim::OptimizerParamGroup& group, double lr);
/// The learning rate of every parameter group.
LEVIN_API std::vector<double> get_lrs(const torch::optim::Optimizer& optimizer);

/// The momentum of a group; nothing for an optimizer that has none (of the built-in ones, SGD and RMSprop have it).
LEVIN_API std::optional<double> get_momentum(const torch::optim::OptimizerParamGroup& group);
/// Throws MisuseError when the optimizer has no momentum.
LEVIN_API void set_momentum(torch::optim::OptimizerParamGroup& group, double momentum);

/// The betas of a group; nothing for an optimizer that has none (of the built-in ones, Adam and AdamW have them).
LEVIN_API std::optional<std::pair<double, double>> get_betas(const torch::optim::OptimizerParamGroup& group);
/// Throws MisuseError when the optimizer has no betas.
LEVIN_API void set_betas(torch::optim::OptimizerParamGroup& group, std::pair<double, double> betas);

/// The class of an optimizer without its namespace: "SGD", "AdamW", or the name of a class of the user's own.
LEVIN_API std::string optimizer_class_name(const torch::optim::Optimizer& optimizer);

/// The parameters of all groups, in their order.
LEVIN_API std::vector<at::Tensor> all_parameters(const torch::optim::Optimizer& optimizer);

/// Frees the gradients of all parameters, or sets them to zero. Unlike Optimizer::zero_grad it also works on gradients that are
/// views into the buckets of a c10d::Reducer.
LEVIN_API void zero_grad(torch::optim::Optimizer& optimizer, bool set_to_none = true);

}  // namespace levin
