#include "levin/core/checkpoint/module_state.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <set>
#include <typeinfo>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/checkpoint/checkpoint.h"

namespace levin {
namespace {

std::map<std::string, at::Tensor> state_dict(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> tensors;
  for (const auto& item : module.named_parameters()) tensors[item.key()] = item.value();
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) tensors[item.key()] = item.value();
  }
  return tensors;
}

/// The beginning, up to a dot, without which most of `names` are among `others`; empty when none is.
std::string superfluous_beginning(const std::vector<std::string>& names, const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  std::map<std::string, int> counts;
  for (const std::string& name : names) {
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
      if (known.contains(name.substr(dot + 1))) ++counts[name.substr(0, dot + 1)];
    }
  }
  const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return most == counts.end() ? "" : most->first;
}

/// Beginnings with a part in them, such as "net._orig_mod.", without which names are among `others`, and without the part.
std::map<std::string, std::string> superfluous_parts(const std::vector<std::string>& names,
                                                     const std::vector<std::string>& others) {
  const std::set<std::string> known(others.begin(), others.end());
  std::map<std::string, std::string> shorter;
  for (const std::string& name : names) {
    std::size_t begin = name.find('.');
    while (begin != std::string::npos) {
      const std::size_t end = name.find('.', begin + 1);
      if (end == std::string::npos) break;
      const std::string kept = name.substr(0, begin + 1);
      if (known.contains(kept + name.substr(end + 1))) shorter.emplace(name.substr(0, end + 1), kept);
      begin = end;
    }
  }
  return shorter;
}

void append(std::string& text, const char* title, const std::vector<std::string>& names) {
  if (!names.empty()) text += format("\n  {}: {}", title, join(names, ", ", [](const auto& name) { return printable(name); }));
}

}  // namespace

void save_module(const torch::nn::Module& module, Checkpoint& checkpoint) {
  for (const auto& [name, tensor] : state_dict(module))
    checkpoint.tensors[std::string(kWeightsPrefix) + name] = tensor.detach();
}

std::map<std::string, at::Tensor> saved_weights(const Checkpoint& checkpoint) {
  std::map<std::string, at::Tensor> weights;
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (name.starts_with(kWeightsPrefix)) weights[name.substr(kWeightsPrefix.size())] = tensor;
  }
  const bool is_foreign = weights.empty() && checkpoint.manifest.size() == 0;
  return is_foreign ? checkpoint.tensors : weights;
}

WeightsMatch::WeightsMatch(const torch::nn::Module& module, const std::map<std::string, at::Tensor>& saved) {
  const std::map<std::string, at::Tensor> own = state_dict(module);
  std::map<const at::TensorImpl*, const std::string*> found;
  for (const auto& [name, tensor] : own) {
    const auto source = saved.find(name);
    if (source == saved.end()) continue;
    const auto [first, is_new] = found.emplace(tensor.unsafeGetTensorImpl(), &name);
    const auto are_equal = [type = tensor.scalar_type()](const at::Tensor& one, const at::Tensor& other) {
      return one.sizes() == other.sizes() && at::allclose(one.to(type), other.to(type), 0, 0, /*equal_nan=*/true);
    };
    if (!is_new && !are_equal(saved.at(*first->second), source->second)) {
      throw ConfigError(format("'{}' and '{}' are one tensor in the module, but two different ones in the saved weights.",
                               *first->second, name));
    }
    if (tensor.sizes() == source->second.sizes()) {
      names_.loaded.push_back(name);
      copies_.emplace_back(tensor, source->second);
    } else {
      names_.misshaped.push_back(name);
      shapes_.push_back(c10::str(name, " (", source->second.sizes(), " saved, ", tensor.sizes(), " in the module)"));
    }
  }
  for (const auto& [name, tensor] : own) {
    if (!saved.contains(name) && !found.contains(tensor.unsafeGetTensorImpl())) names_.missing.push_back(name);
  }
  for (const auto& [name, tensor] : saved) {
    if (!own.contains(name)) names_.unexpected.push_back(name);
  }
}

std::string WeightsMatch::differences() const {
  std::string text;
  append(text, "missing from the file", names_.missing);
  std::vector<std::string> unexpected;
  for (const std::string& name : names_.unexpected) {
    const std::string nearest = nearest_name(name, names_.missing);
    unexpected.push_back(nearest.empty() ? name : format("{} (did you mean '{}'?)", name, nearest));
  }
  append(text, "not in the module", unexpected);
  append(text, "of another shape", shapes_);
  return text;
}

std::map<std::string, std::string> WeightsMatch::renaming() const {
  const std::string in_file = superfluous_beginning(names_.unexpected, names_.missing);
  if (!in_file.empty()) return {{in_file, ""}};
  const std::string in_module = superfluous_beginning(names_.missing, names_.unexpected);
  if (!in_module.empty()) return {{"", in_module}};
  return superfluous_parts(names_.unexpected, names_.missing);
}

void WeightsMatch::copy() const {
  const at::NoGradGuard no_grad;
  for (const auto& [target, source] : copies_) target.copy_(source);
}

void load_module(torch::nn::Module& module, const Checkpoint& checkpoint) {
  const WeightsMatch match(module, saved_weights(checkpoint));
  if (!match.is_whole()) {
    const Value* const saved = checkpoint.manifest.find(kModuleClass);
    const std::string own = class_name_of(typeid(module));
    std::string message = "The checkpoint's weights do not fit the module";
    message += saved != nullptr && saved->is_string() && saved->as_string() != own
                   ? format(": they are of a {}, and this is a {}.", saved->as_string(), own)
                   : ": was it made by another module, or other options?";
    message += match.differences();
    const auto renaming = match.renaming();
    if (renaming.size() == 1 && renaming.begin()->second.empty()) {
      const std::string prefix = printable(renaming.begin()->first);
      message += format(
          "\nNames of the file begin with '{}': remove it with levin export FILE --to safetensors --prefix {}, and use that "
          "file; a new fit loads them with init_from: {{path: FILE, prefix: \"{}\"}}.",
          prefix, prefix, prefix);
    } else if (renaming.contains("")) {
      message += format(
          "\nNames of the module begin with '{}', which the file's lack: add it with levin export FILE --to safetensors "
          "--add_prefix {}, and use that file.",
          renaming.at(""), renaming.at(""));
    } else if (!match.names().unexpected.empty()) {
      message +=
          "\nParameters that hooks add during training must exist when a checkpoint is loaded: create them in setup() or "
          "on_load_checkpoint().";
    }
    throw ConfigError(message);
  }
  match.copy();
}

bool take_trained_weights(Checkpoint& checkpoint, bool in_place_of_averages) {
  std::map<std::string, at::Tensor> trained;
  for (auto entry = checkpoint.tensors.lower_bound(std::string(kTrainedWeightsPrefix));
       entry != checkpoint.tensors.end() && entry->first.starts_with(kTrainedWeightsPrefix);) {
    trained.insert(checkpoint.tensors.extract(entry++));
  }
  if (in_place_of_averages) {
    for (auto& [name, tensor] : trained) {
      const std::string own = name.substr(kTrainedWeightsPrefix.size());
      at::Tensor& weights = checkpoint.tensors[std::string(kWeightsPrefix) + own];
      if (weights.defined()) checkpoint.tensors[std::string(kAveragesPrefix) + own] = weights;
      weights = std::move(tensor);
    }
  }
  return !trained.empty();
}

}  // namespace levin
