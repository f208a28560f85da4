#include "levin/core/run/module_modes.h"

#include <torch/nn/module.h>

namespace levin {

ModuleModes::ModuleModes(torch::nn::Module& module) { add("", module); }

void ModuleModes::add(const std::string& name, torch::nn::Module& module) {
  modes_.push_back({name, &module, module.is_training()});
  for (const auto& child : module.named_children()) {
    add(name.empty() ? child.key() : name + "." + child.key(), *child.value());
  }
}

void ModuleModes::restore() const {
  // train() changes the whole subtree; the entries of the children come later and set them right again.
  for (const Mode& mode : modes_) mode.module->train(mode.training);
}

std::vector<std::string> ModuleModes::in_evaluation() const {
  std::vector<std::string> names;
  for (const Mode& mode : modes_) {
    if (!mode.training) names.push_back(mode.name);
  }
  return names;
}

void set_modes(torch::nn::Module& module, const std::set<std::string>& in_evaluation) {
  module.train(!in_evaluation.contains(""));
  for (const auto& item : module.named_modules("", /*include_self=*/false))
    item.value()->train(!in_evaluation.contains(item.key()));
}

}  // namespace levin
