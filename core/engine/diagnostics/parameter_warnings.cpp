#include "levin/core/engine/diagnostics/parameter_warnings.h"

#include <torch/optim/optimizer.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

constexpr std::size_t kMostNames = 10;

void warn(const std::string& text) { Console::instance().warn_once(text, text, Speaker::kRun); }

std::string some_of(std::vector<std::string> names) {
  const std::size_t count = names.size();
  names.resize(std::min(count, kMostNames));
  return join(names) + (count > kMostNames ? format(" and {} more", count - kMostNames) : "");
}

void warn_of_optimizer(const torch::optim::Optimizer& optimizer, std::size_t index,
                       const std::set<const at::TensorImpl*>& known) {
  std::vector<std::string> strangers;
  const std::vector<at::Tensor> parameters = all_parameters(optimizer);
  for (const at::Tensor& parameter : parameters) {
    if (!known.contains(parameter.unsafeGetTensorImpl())) strangers.push_back(c10::str(parameter.sizes()));
  }
  if (strangers.empty() && !parameters.empty()) return;
  const std::string who = format("Optimizer {} ({})", index, optimizer_class_name(optimizer));
  const std::string advice =
      " Register what the module is made of with register_parameter() and register_module(): else it is neither saved, nor "
      "moved "
      "to the device, nor made equal on all ranks.";
  if (strangers.size() == parameters.size()) {
    warn(who + " has none of the module's parameters, so its steps do not change the module." + advice);
  } else {
    warn(format("{} has {} that the module does not know, of shape {}.", who, counted(strangers.size(), "parameter"),
                some_of(strangers)) +
         advice);
  }
}

}  // namespace

void warn_of_idle_parameters(const RunParts& parts) {
  if (parts.optimizers.empty()) return;
  std::set<const at::TensorImpl*> known;
  std::set<const at::TensorImpl*> optimized;
  for (const auto& optimizer : parts.optimizers) {
    for (const at::Tensor& parameter : all_parameters(*optimizer)) optimized.insert(parameter.unsafeGetTensorImpl());
  }
  bool any_trained = false;
  std::vector<std::string> idle;
  for (const auto& [name, parameter] : distinct_parameters(*parts.module)) {
    known.insert(parameter.unsafeGetTensorImpl());
    if (!parameter.requires_grad()) continue;
    any_trained = true;
    if (!optimized.contains(parameter.unsafeGetTensorImpl())) idle.push_back(name);
  }
  if (!any_trained) {
    warn(known.empty() ? "The module has no parameters: training changes nothing. Register them with register_parameter(), and "
                         "the modules that it is made of with register_module()."
                       : "All parameters of the module are frozen: training changes nothing. Unfreeze some with "
                         "requires_grad_(true).");
  }
  for (std::size_t index = 0; index < parts.optimizers.size(); ++index) {
    warn_of_optimizer(*parts.optimizers[index], index, known);
  }
  if (idle.empty()) return;
  const char* which = parts.optimizers.size() == 1 ? "the optimizer" : "any optimizer";
  warn(
      format("{} not in {}, so training leaves as it is: {}. Give all parameters to configure_optimizers' optimizer, or freeze "
             "these with requires_grad_(false).",
             idle.size() == 1 ? "A parameter that requires a gradient is"
                              : format("{} parameters that require a gradient are", idle.size()),
             which, some_of(idle)));
}

}  // namespace levin
