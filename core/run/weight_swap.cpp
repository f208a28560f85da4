#include "levin/core/run/weight_swap.h"

#include <ATen/core/grad_mode.h>

#include <map>
#include <typeinfo>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/callback.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/checkpoint/module_state.h"
#include "levin/core/module.h"

namespace levin {

std::vector<EvaluatedWeights*> WeightSwap::sources() const {
  std::vector<EvaluatedWeights*> found;
  const auto add = [&](auto& part) {
    if (auto* const source = dynamic_cast<EvaluatedWeights*>(part.get())) found.push_back(source);
  };
  for (const auto& optimizer : parts_.optimizers) add(optimizer);
  for (const auto& callback : parts_.callbacks) add(callback);
  return found;
}

std::vector<WeightPair> WeightSwap::pairs() const {
  std::vector<WeightPair> all;
  for (const EvaluatedWeights* source : sources()) {
    for (WeightPair& pair : source->evaluated_weights()) all.push_back(std::move(pair));
  }
  return all;
}

void WeightSwap::check() const {
  const std::vector<EvaluatedWeights*> all = sources();
  // Several optimizers have different parameters.
  if (all.size() < 2 || dynamic_cast<Callback*>(all.back()) == nullptr) return;
  throw ConfigError(format("{} each average weights for evaluation: remove all but one of them.",
                           join(all, " and ", [](const EvaluatedWeights* one) { return class_name_of(typeid(*one)); })));
}

void WeightSwap::evaluate() {
  if (is_evaluating()) return;
  const at::NoGradGuard no_grad;
  for (const WeightPair& pair : pairs()) {
    trained_.emplace_back(pair.trained, pair.trained.detach().clone());
    at::Tensor(pair.trained).copy_(pair.evaluated);
  }
}

void WeightSwap::train() {
  const at::NoGradGuard no_grad;
  for (auto& [tensor, trained] : trained_) tensor.copy_(trained);
  trained_.clear();
}

void WeightSwap::end_training(Trainer& trainer) const {
  for (EvaluatedWeights* source : sources()) source->on_training_done(trainer, *parts_.module);
}

void WeightSwap::add_to(Checkpoint& checkpoint, bool evaluated_only) const {
  std::map<const at::TensorImpl*, at::Tensor> others;  // than what the module has
  for (const auto& [tensor, trained] : trained_) others[tensor.unsafeGetTensorImpl()] = trained;
  if (!is_evaluating()) {
    for (const WeightPair& pair : pairs()) others[pair.trained.unsafeGetTensorImpl()] = pair.evaluated;
  }
  if (others.empty()) return;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    const auto saved = checkpoint.tensors.find(std::string(kWeightsPrefix) + name);
    if (saved == checkpoint.tensors.end()) return;
    const auto other = others.find(tensor.unsafeGetTensorImpl());
    at::Tensor trained = saved->second;
    if (other != others.end()) (is_evaluating() ? trained : saved->second) = other->second;
    if (!evaluated_only) checkpoint.tensors[std::string(kTrainedWeightsPrefix) + name] = trained;
  };
  for (const auto& parameter : parts_.module->named_parameters()) add(parameter.key(), parameter.value());
  for (const auto& buffer : parts_.module->named_buffers()) add(buffer.key(), buffer.value());
}

}  // namespace levin
