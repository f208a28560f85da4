#include "levin/core/engine/step/unregistered_leaves.h"

#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/module.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

void UnregisteredLeaves::look_at_loss(const at::Tensor& loss) {
  constexpr int kPasses = 2;
  if (passes_ == kPasses) return;
  ++passes_;
  std::vector<at::Tensor> strangers = strangers_in(loss);
  if (passes_ == 1) {
    if (strangers.empty()) passes_ = kPasses;
    suspects_ = std::move(strangers);
    return;
  }
  std::erase_if(strangers, [&](const at::Tensor& tensor) {
    return std::none_of(suspects_.begin(), suspects_.end(), [&](const at::Tensor& other) { return other.is_same(tensor); });
  });
  suspects_.clear();
  if (strangers.empty()) return;
  constexpr std::size_t kMostShapes = 6;
  const std::size_t count = strangers.size();
  strangers.resize(std::min(count, kMostShapes));
  const std::string shapes = join(strangers, ", ", [](const at::Tensor& tensor) { return c10::str(tensor.sizes()); });
  Console::instance().warn_once(
      format(
          "The loss depends on {} that the module knows nothing of, of shape {}{}: not trained, not saved, and not made equal "
          "on all ranks. Give each layer to register_module() in the constructor, and each weight to "
          "register_parameter(); or detach() what is not to be trained.",
          counted(count, "weight"), shapes, count > kMostShapes ? ", …" : ""),
      "unregistered leaves", Speaker::kRun);
}

std::vector<at::Tensor> UnregisteredLeaves::strangers_in(const at::Tensor& loss) const {
  std::set<const at::TensorImpl*> known;
  for (const at::Tensor& parameter : parts_.module->parameters()) known.insert(parameter.unsafeGetTensorImpl());
  for (const auto& optimizer : parts_.optimizers) {
    for (const at::Tensor& parameter : all_parameters(*optimizer)) known.insert(parameter.unsafeGetTensorImpl());
  }
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
