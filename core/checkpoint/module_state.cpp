#include "levin/core/checkpoint/module_state.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <map>
#include <sstream>

#include "levin/core/base/format.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/error.h"

namespace levin {
namespace {

constexpr std::string_view kPrefix = "state_dict.";

std::map<std::string, at::Tensor> state_dict(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) tensors[item.key()] = item.value();
  }
  return tensors;
}

void append(std::string& message, const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  message += format("\n  {}:", title);
  for (const std::string& name : names) message += " " + name;
}

std::string shape_change(const std::string& name, const at::Tensor& saved, const at::Tensor& own) {
  std::ostringstream text;
  text << name << " (" << saved.sizes() << " saved, " << own.sizes() << " in the module)";
  return text.str();
}

}  // namespace

void save_module(const torch::nn::Module& module, Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : state_dict(module)) checkpoint.tensors[std::string(kPrefix) + name] = tensor.detach();
}

StateDictDifference load_module(torch::nn::Module& module, const Checkpoint& checkpoint, bool strict) {
  std::map<std::string, at::Tensor> own = state_dict(module);
  StateDictDifference difference;
  std::vector<std::string> reshaped;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;
  for (auto& [name, tensor] : own) {
    const auto saved = checkpoint.tensors.find(std::string(kPrefix) + name);
    if (saved == checkpoint.tensors.end()) {
      difference.missing.push_back(name);
    } else if (saved->second.sizes() != tensor.sizes()) {
      reshaped.push_back(shape_change(name, saved->second, tensor));
    } else {
      copies.emplace_back(tensor, saved->second);
    }
  }
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!name.starts_with(kPrefix)) continue;
    const std::string own_name = name.substr(kPrefix.size());
    if (!own.contains(own_name)) difference.unexpected.push_back(own_name);
  }
  const bool differs = strict && (!difference.missing.empty() || !difference.unexpected.empty());
  if (differs || !reshaped.empty()) {
    std::string message = "The checkpoint's weights do not fit the module: was it made by another module, or other options?";
    if (strict) append(message, "missing from the checkpoint", difference.missing);
    if (strict) append(message, "not in the module", difference.unexpected);
    append(message, "of another shape", reshaped);
    if (strict && !difference.unexpected.empty()) {
      message +=
          "\nWhat hooks add to the module while training runs has to be there when a checkpoint is loaded: create it in "
          "setup() "
          "or on_load_checkpoint().";
    }
    throw ConfigError(message);
  }
  const at::NoGradGuard no_grad;
  for (auto& [target, source] : copies) target.copy_(source);
  return difference;
}

}  // namespace levin
