#include "levin/core/optimizers/optimizer_access.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <iterator>
#include <typeinfo>
#include <unordered_set>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/optimizers/described_optimizer.h"

namespace levin {
namespace {

namespace optim = torch::optim;
using optim::OptimizerParamGroup;

/// Calls visit(name, option) for each option of a LibTorch optimizer, and never for others.
template <class Visit>
void visit_options(optim::OptimizerOptions& options, const Visit& visit) {
  const auto visit_usual = [&](auto& of_class) {
    visit("lr", of_class.lr());
    visit("weight_decay", of_class.weight_decay());
  };
  const auto visit_adam = [&](auto& adam) {
    visit_usual(adam);
    visit("betas", adam.betas());
    visit("eps", adam.eps());
    visit("amsgrad", adam.amsgrad());
  };
  if (auto* sgd = dynamic_cast<optim::SGDOptions*>(&options)) {
    visit_usual(*sgd);
    visit("momentum", sgd->momentum());
    visit("dampening", sgd->dampening());
    visit("nesterov", sgd->nesterov());
  } else if (auto* adam = dynamic_cast<optim::AdamOptions*>(&options)) {
    visit_adam(*adam);
  } else if (auto* adamw = dynamic_cast<optim::AdamWOptions*>(&options)) {
    visit_adam(*adamw);
  } else if (auto* rmsprop = dynamic_cast<optim::RMSpropOptions*>(&options)) {
    visit_usual(*rmsprop);
    visit("alpha", rmsprop->alpha());
    visit("eps", rmsprop->eps());
    visit("momentum", rmsprop->momentum());
    visit("centered", rmsprop->centered());
  } else if (auto* adagrad = dynamic_cast<optim::AdagradOptions*>(&options)) {
    visit_usual(*adagrad);
    visit("lr_decay", adagrad->lr_decay());
    visit("initial_accumulator_value", adagrad->initial_accumulator_value());
    visit("eps", adagrad->eps());
  } else if (auto* lbfgs = dynamic_cast<optim::LBFGSOptions*>(&options)) {
    visit("lr", lbfgs->lr());
    visit("max_iter", lbfgs->max_iter());
    visit("max_eval", lbfgs->max_eval());
    visit("tolerance_grad", lbfgs->tolerance_grad());
    visit("tolerance_change", lbfgs->tolerance_change());
    visit("history_size", lbfgs->history_size());
    visit("line_search_fn", lbfgs->line_search_fn());
  }
}

std::optional<double> number_option(const OptimizerParamGroup& group, const char* name) {
  const Value all = option_values(group.options());
  const Value* const value = all.find(name);
  return value != nullptr && value->is_number() ? std::optional(value->as_double()) : std::nullopt;
}

void set_option(OptimizerParamGroup& group, const char* name, const Value& value) {
  Value all = option_values(group.options());
  if (!all.contains(name)) throw MisuseError(format("This optimizer has no {} to set.", name));
  all[name] = value;
  set_option_values(group.options(), all);
}

}  // namespace

Value option_values(const optim::OptimizerOptions& options) {
  if (const auto* described = dynamic_cast<const GroupOptions*>(&options)) return described->values();
  Value values(Value::Map{});
  visit_options(*options.clone(),
                [&]<class T>(const char* name, const T& option) { values[name] = OptionType<T>::write(option); });
  return values;
}

void set_option_values(optim::OptimizerOptions& options, const Value& values) {
  if (auto* described = dynamic_cast<GroupOptions*>(&options)) {
    Value own = described->values();
    for (auto& [name, value] : own.as_map()) value = values.at(name);
    described->set_values(own);
  } else {
    visit_options(options, [&]<class T>(const char* name, T& option) { option = OptionType<T>::read(values.at(name)); });
  }
}

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
  const Value all = option_values(group.options());
  const Value* const betas = all.find("betas");
  if (betas == nullptr || betas->size() != 2) return std::nullopt;
  return std::pair(betas->as_list()[0].as_double(), betas->as_list()[1].as_double());
}

void set_betas(OptimizerParamGroup& group, std::pair<double, double> betas) {
  set_option(group, "betas", Value(Value::List{betas.first, betas.second}));
}

std::optional<double> get_weight_decay(const OptimizerParamGroup& group) { return number_option(group, "weight_decay"); }

bool steps_parameters_alone(const torch::optim::Optimizer& optimizer) {
  if (const auto* described = dynamic_cast<const DescribedOptimizer*>(&optimizer)) return described->steps_parameters_alone();
  const auto is_any_of = [&]<class... Classes>() { return ((dynamic_cast<const Classes*>(&optimizer) != nullptr) || ...); };
  return is_any_of.operator()<optim::SGD, optim::Adam, optim::AdamW, optim::RMSprop, optim::Adagrad>();
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

bool is_one_of(const at::Tensor& tensor, const std::vector<at::Tensor>& tensors) {
  return std::ranges::any_of(tensors, [&](const at::Tensor& each) { return each.is_same(tensor); });
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

std::optional<double> total_norm(const std::vector<at::Tensor>& norms, double norm_type) {
  std::vector<at::Tensor> present;
  std::ranges::copy_if(norms, std::back_inserter(present), [](const at::Tensor& norm) { return norm.defined(); });
  if (present.empty()) return std::nullopt;
  const auto is_alike = [&](const at::Tensor& norm) {
    return norm.device() == present.front().device() && norm.scalar_type() == present.front().scalar_type();
  };
  if (!std::ranges::all_of(present, is_alike)) {
    for (at::Tensor& norm : present) norm = norm.to(present.front().device(), at::kDouble);
  }
  return at::linalg_vector_norm(at::stack(present), norm_type, at::OptionalIntArrayRef(), false, at::kDouble).item<double>();
}

}  // namespace levin
