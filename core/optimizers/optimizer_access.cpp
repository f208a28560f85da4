#include "levin/core/optimizers/optimizer_access.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <type_traits>
#include <typeinfo>
#include <unordered_set>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/optimizers/optimizer_fields.h"

namespace levin {
namespace {

using torch::optim::OptimizerParamGroup;

std::optional<double> number_option(const OptimizerParamGroup& group, const char* name) {
  const std::optional<Value> value = option_value(group.options(), name);
  return value && value->is_number() ? std::optional(value->as_double()) : std::nullopt;
}

void set_option(OptimizerParamGroup& group, const char* name, const Value& value) {
  if (!set_option_value(group.options(), name, value)) throw MisuseError(format("This optimizer has no {} to set.", name));
}

}  // namespace

double get_lr(const OptimizerParamGroup& group) { return group.options().get_lr(); }

void set_lr(OptimizerParamGroup& group, double lr) { group.options().set_lr(lr); }

std::vector<double> get_lrs(const torch::optim::Optimizer& optimizer) {
  std::vector<double> lrs;
  for (const OptimizerParamGroup& group : optimizer.param_groups()) lrs.push_back(get_lr(group));
  return lrs;
}

std::optional<double> get_momentum(const OptimizerParamGroup& group) { return number_option(group, "momentum"); }

void set_momentum(OptimizerParamGroup& group, double momentum) { set_option(group, "momentum", momentum); }

std::optional<std::pair<double, double>> get_betas(const OptimizerParamGroup& group) {
  const std::optional<Value> betas = option_value(group.options(), "betas");
  if (!betas || betas->size() != 2) return std::nullopt;
  return std::pair(betas->as_list()[0].as_double(), betas->as_list()[1].as_double());
}

void set_betas(OptimizerParamGroup& group, std::pair<double, double> betas) {
  set_option(group, "betas", Value(Value::List{betas.first, betas.second}));
}

std::optional<double> get_weight_decay(const OptimizerParamGroup& group) { return number_option(group, "weight_decay"); }

bool steps_parameters_alone(const torch::optim::Optimizer& optimizer) {
  if (const auto* described = dynamic_cast<const DescribedOptimizer*>(&optimizer)) return described->steps_parameters_alone();
  bool alone = false;
  detail::visit_optimizer_kind(
      optimizer, [&]<class Kind>(Kind) { alone = !std::is_same_v<typename Kind::State, torch::optim::LBFGSParamState>; });
  return alone;
}

std::string optimizer_class_name(const torch::optim::Optimizer& optimizer) { return class_name_of(typeid(optimizer)); }

std::vector<std::pair<std::string, at::Tensor>> distinct_parameters(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> distinct;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& entry : module.named_parameters()) {
    if (seen.insert(entry.value().unsafeGetTensorImpl()).second) distinct.emplace_back(entry.key(), entry.value());
  }
  return distinct;
}

std::vector<at::Tensor> all_parameters(const torch::optim::Optimizer& optimizer) {
  std::vector<at::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return parameters;
}

void zero_grad(torch::optim::Optimizer& optimizer, bool set_to_none) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (OptimizerParamGroup& group : optimizer.param_groups()) {
    for (at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      at::Tensor& grad = parameter.mutable_grad();
      if (set_to_none) {
        grad = at::Tensor();
      } else {
        // detach_() is refused on a view; detach() gives another handle on the same memory.
        if (grad.grad_fn()) grad = grad.detach();
        gradients.push_back(grad);
      }
    }
  }
  if (!gradients.empty()) at::_foreach_zero_(gradients);
}

}  // namespace levin
