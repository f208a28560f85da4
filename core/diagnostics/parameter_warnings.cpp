#include "levin/core/diagnostics/parameter_warnings.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/optim/optimizer.h>

#include <algorithm>
#include <set>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

void warn(const std::string& text) { Console::instance().warn_once(text, text, Speaker::kRun); }

std::set<const at::TensorImpl*> optimized_by(const RunParts& parts) {
  std::set<const at::TensorImpl*> optimized;
  for (const auto& optimizer : parts.optimizers) {
    for (const at::Tensor& parameter : all_parameters(*optimizer)) optimized.insert(parameter.unsafeGetTensorImpl());
  }
  return optimized;
}

void warn_of_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index,
                       const std::set<const at::TensorImpl*>& known) {
  std::vector<std::string> strangers;
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  for (const at::Tensor& parameter : parameters) {
    if (!known.contains(parameter.unsafeGetTensorImpl())) strangers.push_back(c10::str(parameter.sizes()));
  }
  if (strangers.empty() && !parameters.empty()) return;
  const std::string name = format("Optimizer {} ({})", index, optimizer_class_name(optimizer));
  const std::string advice =
      " Register parameters and submodules with register_parameter() and register_module(): otherwise they are neither saved, "
      "nor moved to the device, nor made equal on all ranks.";
  if (strangers.size() == parameters.size()) {
    warn(name + " has none of the module's parameters, so its steps do not change the module." + advice);
  } else {
    warn(format("{} has {} unknown to the module, of shape {}.", name, counted(strangers.size(), "parameter"),
                some_of(strangers)) +
         advice);
  }
}

}  // namespace

std::string some_of(std::vector<std::string> names) {
  constexpr std::size_t kMostNames = 10;
  const std::size_t count = names.size();
  names.resize(std::min(count, kMostNames));
  return join(names) + (count > kMostNames ? format(" and {} more", count - kMostNames) : "");
}

void warn_of_layers_in_evaluation_mode(const torch::nn::Module& module) {
  const auto is_trained = [](const at::Tensor& parameter) { return parameter.requires_grad(); };
  std::vector<std::string> layers;
  std::string known;  // the last layer that was checked with its submodules
  for (const auto& layer : module.named_modules("", /*include_self=*/false)) {
    if (layer.value()->is_training() || (!known.empty() && layer.key().starts_with(known + "."))) continue;
    known = layer.key();
    const std::vector<at::Tensor> parameters = layer.value()->parameters();
    if (parameters.empty() || std::ranges::any_of(parameters, is_trained)) layers.push_back(layer.key());
  }
  if (layers.empty()) return;
  rank_zero_warn(
      format("{} in evaluation mode when training starts, and stays in it: {}. Call train() on it before fit(), or freeze() it "
             "if this is intended.",
             layers.size() == 1 ? "A layer is" : format("Each of {} layers is", layers.size()), join(layers)));
}

void warn_of_idle_parameters(const RunParts& parts) {
  if (parts.optimizers.empty()) return;
  std::set<const at::TensorImpl*> known;
  const std::set<const at::TensorImpl*> optimized = optimized_by(parts);
  bool any_trained = false;
  std::vector<std::string> idle;
  for (const auto& [name, parameter] : distinct_parameters(*parts.module)) {
    known.insert(parameter.unsafeGetTensorImpl());
    if (!parameter.requires_grad()) continue;
    any_trained = true;
    if (!optimized.contains(parameter.unsafeGetTensorImpl())) idle.push_back(name);
  }
  if (!any_trained) {
    warn(known.empty()
             ? "The module has no parameters: training changes nothing. Register them with register_parameter(), and "
               "submodules with register_module()."
             : "All parameters of the module are frozen: training changes nothing. Unfreeze some with requires_grad_(true).");
  }
  for (std::size_t index = 0; index < parts.optimizers.size(); ++index) {
    warn_of_optimizer(*parts.optimizers[index], index, known);
  }
  if (idle.empty()) return;
  const char* which = parts.optimizers.size() == 1 ? "the optimizer" : "any optimizer";
  warn(
      format("{} not in {} and therefore not trained: {}. Give all parameters to configure_optimizers' optimizer, or freeze "
             "these with requires_grad_(false).",
             idle.size() == 1 ? "A parameter that requires a gradient is"
                              : format("{} parameters that require a gradient are", idle.size()),
             which, some_of(idle)));
}

void UnregisteredLeaves::check_loss(const at::Tensor& loss) {
  constexpr int kPasses = 2;
  if (passes_ == kPasses) return;
  ++passes_;
  std::vector<at::Tensor> strangers = strangers_in(loss);
  if (passes_ == 1) {
    if (strangers.empty()) passes_ = kPasses;
    suspects_ = std::move(strangers);
    return;
  }
  std::erase_if(strangers, [&](const at::Tensor& tensor) { return !is_one_of(tensor, suspects_); });
  suspects_.clear();
  if (strangers.empty()) return;
  std::vector<std::string> shapes;
  for (const at::Tensor& tensor : strangers) shapes.push_back(c10::str(tensor.sizes()));
  Console::instance().warn_once(format("The loss depends on {} unknown to the module, of shape {}: not trained, not saved, and "
                                       "not made equal on all ranks. Pass each layer to register_module() in the constructor, "
                                       "and each weight to register_parameter(); or detach() what should not be trained.",
                                       counted(shapes.size(), "weight"), some_of(shapes)),
                                "unregistered leaves", Speaker::kRun);
}

std::vector<at::Tensor> UnregisteredLeaves::strangers_in(const at::Tensor& loss) const {
  std::set<const at::TensorImpl*> known = optimized_by(parts_);
  for (const at::Tensor& parameter : parts_.module->parameters()) known.insert(parameter.unsafeGetTensorImpl());
  std::vector<at::Tensor> strangers;
  std::vector<torch::autograd::Node*> open = {loss.grad_fn().get()};
  std::set<const torch::autograd::Node*> seen;
  while (!open.empty()) {
    torch::autograd::Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    for (const auto& edge : node->next_edges()) open.push_back(edge.function.get());
    const auto* leaf = dynamic_cast<const torch::autograd::AccumulateGrad*>(node);
    if (leaf != nullptr && known.insert(leaf->variable.unsafeGetTensorImpl()).second) strangers.push_back(leaf->variable);
  }
  return strangers;
}

}  // namespace levin
