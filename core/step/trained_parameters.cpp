#include "levin/core/step/trained_parameters.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "levin/core/diagnostics/parameter_warnings.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/run/rank_agreement.h"
#include "levin/core/step/precision.h"

namespace levin {

namespace {

/// A module's own parameters without a copy: named_parameters() copies all names.
struct OwnParameters : torch::nn::Module {
  static const auto& of(const torch::nn::Module& module) { return module.*(&OwnParameters::parameters_); }
};

/// Visits parents first.
template <class Visit>
void for_each_parameter(const torch::nn::Module& module, const Visit& visit) {
  for (const auto& item : OwnParameters::of(module)) {
    if (item.value().defined()) visit(item.value());
  }
  for (const auto& child : module.children()) for_each_parameter(*child, visit);
}

template <class ToggledOff>
void require_gradients(const ToggledOff& toggled_off, bool required) {
  for (const auto& [key, off] : toggled_off) off.parameter.requires_grad_(required);
}

}  // namespace

ParameterGroups groups_of(const torch::optim::Optimizer& optimizer) {
  ParameterGroups groups;
  for (const auto& group : optimizer.param_groups()) groups.push_back(group.params());
  return groups;
}

bool are_same(const ParameterGroups& one, const ParameterGroups& other) {
  const auto same_tensor = [](const at::Tensor& tensor, const at::Tensor& its_other) { return tensor.is_same(its_other); };
  return std::ranges::equal(
      one, other, [&](const auto& group, const auto& its_other) { return std::ranges::equal(group, its_other, same_tensor); });
}

ParameterSet TrainedParameters::taken() const {
  ParameterSet set;
  for_each_parameter(*parts_.module, [&](const at::Tensor& parameter) {
    set.parameters.push_back(parameter);
    set.trained.push_back(is_trained(parameter));
  });
  for (const auto& optimizer : parts_.optimizers) set.optimizers.push_back(groups_of(*optimizer));
  return set;
}

std::shared_ptr<const ParameterSet> TrainedParameters::now() {
  ParameterSet set = taken();
  if (!latest_ || !(*latest_ == set)) latest_ = std::make_shared<const ParameterSet>(std::move(set));
  return latest_;
}

void TrainedParameters::remember_optimizers() {
  ParameterSet set = *agreed_;
  set.optimizers = taken().optimizers;
  latest_ = agreed_ = std::make_shared<const ParameterSet>(std::move(set));
}

void TrainedParameters::agree(bool after_reduction) {
  Module& module = *parts_.module;
  Strategy& strategy = *setup_.strategy;
  PrecisionPolicy(setup_.options.precision, strategy.accelerator(), strategy.device(), setup_.options.channels_last)
      .prepare_module(module);
  if (setup_.options.sync_batchnorm) strategy.synchronize_batch_norms(module);
  {
    // The reduction is set up for all trained parameters, whichever optimizer's turn it is.
    require_gradients(toggled_off_, true);
    strategy.parameters_changed(module, after_reduction);
    require_gradients(toggled_off_, false);
  }
  check_same_changes_of_optimizers(setup_, parts_);
  warn_of_idle_parameters(parts_);
  agreed_ = now();
}

void TrainedParameters::toggle(std::size_t optimizer) {
  std::unordered_set<const at::TensorImpl*> stays;
  for (const at::Tensor& parameter : all_parameters(*parts_.optimizers.at(optimizer)))
    stays.insert(parameter.unsafeGetTensorImpl());
  for (const auto& other : parts_.optimizers) {
    for (const at::Tensor& parameter : all_parameters(*other)) {
      if (!parameter.requires_grad() || stays.contains(parameter.unsafeGetTensorImpl())) continue;
      toggled_off_.emplace(parameter.unsafeGetTensorImpl(), ToggledOff{parameter, parameter.grad().defined()});
    }
  }
  toggled_ = optimizer;
  require_gradients(toggled_off_, false);
}

void TrainedParameters::untoggle() {
  require_gradients(toggled_off_, true);
  for (auto& [key, off] : toggled_off_) {
    // When several ranks reduce gradients, it took part with zeros.
    if (!off.had_gradient) off.parameter.mutable_grad().reset();
  }
  toggled_off_.clear();
  toggled_.reset();
}

ModuleModes::ModuleModes(torch::nn::Module& module) : module_(module), trains_(module.is_training()) { add_parts_of(module); }

void ModuleModes::add_parts_of(const torch::nn::Module& module) {
  for (const auto& part : module.children()) {
    parts_.emplace_back(part, part->is_training());
    add_parts_of(*part);
  }
}

void ModuleModes::restore() const {
  // train() changes the whole subtree; the entries of the children come later and correct them.
  module_.train(trains_);
  for (const auto& [part, trains] : parts_) part->train(trains);
}

std::vector<std::string> ModuleModes::in_evaluation() const {
  std::unordered_set<const torch::nn::Module*> evaluated;
  for (const auto& [part, trains] : parts_) {
    if (!trains) evaluated.insert(part.get());
  }
  std::vector<std::string> names(trains_ ? 0 : 1);
  for (const auto& part : module_.named_modules("", /*include_self=*/false)) {
    if (evaluated.contains(part.value().get())) names.push_back(part.key());
  }
  return names;
}

void set_modes(torch::nn::Module& module, const std::set<std::string>& in_evaluation) {
  module.train(!in_evaluation.contains(""));
  for (const auto& part : module.named_modules("", /*include_self=*/false)) {
    part.value()->train(!in_evaluation.contains(part.key()));
  }
}

}  // namespace levin
