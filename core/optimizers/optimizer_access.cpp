#include "levin/core/optimizers/optimizer_access.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <cxxabi.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "levin/core/error.h"

namespace levin {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using torch::optim::RMSpropOptions;
using torch::optim::SGDOptions;

// Calls visit(options) with the concrete type when it is one of Types; false otherwise.
template <class... Types, class Options, class Visit>
bool visit_as(Options& options, const Visit& visit) {
  const auto attempt = [&](auto* concrete) {
    if (concrete != nullptr) visit(*concrete);
    return concrete != nullptr;
  };
  if constexpr (std::is_const_v<Options>) {
    return (attempt(dynamic_cast<const Types*>(&options)) || ...);
  } else {
    return (attempt(dynamic_cast<Types*>(&options)) || ...);
  }
}

std::string demangled(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? name.get() : type.name();
}

}  // namespace

double get_lr(const OptimizerParamGroup& group) { return group.options().get_lr(); }

void set_lr(OptimizerParamGroup& group, double lr) { group.options().set_lr(lr); }

std::vector<double> get_lrs(const torch::optim::Optimizer& optimizer) {
  std::vector<double> lrs;
  for (const OptimizerParamGroup& group : optimizer.param_groups()) lrs.push_back(get_lr(group));
  return lrs;
}

std::optional<double> get_momentum(const OptimizerParamGroup& group) {
  std::optional<double> momentum;
  visit_as<SGDOptions, RMSpropOptions>(group.options(), [&](const auto& options) { momentum = options.momentum(); });
  return momentum;
}

void set_momentum(OptimizerParamGroup& group, double momentum) {
  if (!visit_as<SGDOptions, RMSpropOptions>(group.options(), [&](auto& options) { options.momentum(momentum); })) {
    throw MisuseError("This optimizer has no momentum to set: only SGD and RMSprop have one.");
  }
}

std::optional<std::pair<double, double>> get_betas(const OptimizerParamGroup& group) {
  std::optional<std::pair<double, double>> betas;
  visit_as<AdamOptions, AdamWOptions>(group.options(), [&](const auto& options) {
    betas = std::pair(std::get<0>(options.betas()), std::get<1>(options.betas()));
  });
  return betas;
}

void set_betas(OptimizerParamGroup& group, std::pair<double, double> betas) {
  if (!visit_as<AdamOptions, AdamWOptions>(group.options(), [&](auto& options) { options.betas(std::tuple(betas)); })) {
    throw MisuseError("This optimizer has no betas to set: only Adam and AdamW have them.");
  }
}

std::string optimizer_class_name(const torch::optim::Optimizer& optimizer) {
  const std::string name = demangled(typeid(optimizer));
  const std::size_t template_arguments = name.find('<');
  const std::size_t end_of_scope = name.rfind("::", template_arguments);
  return end_of_scope == std::string::npos ? name : name.substr(end_of_scope + 2);
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
