#include "levin/core/engine/parts/module_modes.h"

#include <torch/nn/module.h>

#include <utility>

namespace levin {

ModuleModes::ModuleModes(torch::nn::Module& module) { add("", module); }

void ModuleModes::add(const std::string& name, torch::nn::Module& module) {
  modes_.push_back({name, &module, module.is_training()});
  for (const auto& child : module.named_children()) {
    add(name.empty() ? child.key() : name + "." + child.key(), *child.value());
  }
}

bool ModuleModes::are_of(const torch::nn::Module& module, std::size_t& index) const {
  if (index == modes_.size()) return false;
  const Mode& mode = modes_[index++];
  if (mode.module != &module || mode.training != module.is_training()) return false;
  for (const auto& child : module.children()) {
    if (!are_of(*child, index)) return false;
  }
  return true;
}

std::shared_ptr<const ModuleModes> ModuleModes::now(torch::nn::Module& module, std::shared_ptr<const ModuleModes> before) {
  std::size_t index = 0;
  if (before && before->are_of(module, index) && index == before->modes_.size()) return before;
  return std::make_shared<const ModuleModes>(module);
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
