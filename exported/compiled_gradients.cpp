#include "levin/exported/compiled_gradients.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <type_traits>
#include <utility>

#include "levin/core/base/error.h"

namespace levin {
namespace {

using torch::autograd::AccumulateGrad;

bool has_hooks(torch::autograd::Node& node) {
  return !node.pre_hooks().empty() || !node.tensor_pre_hooks().empty() || !node.post_hooks().empty() ||
         !node.retains_grad_hooks().empty() || node.tensor_post_acc_grad_hooks() != nullptr;
}

/// The engine would convert or expand others.
bool fits(const at::Tensor& gradient, const at::Tensor& parameter) {
  return gradient.defined() && gradient.scalar_type() == parameter.scalar_type() && gradient.sizes() == parameter.sizes();
}

/// The backward pass of a compiled step. Its gradients are passed on without a copy where they are not needed elsewhere, so
/// that they become the parameters' own without a copy.
class CompiledBackward : public torch::autograd::Node {
 public:
  explicit CompiledBackward(std::vector<at::Tensor> gradients) : gradients_(std::move(gradients)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&& outer) override {
    if (gradients_.empty()) {
      throw MisuseError(
          "backward() of a compiled step a second time: its gradients have been given away. Keep them with retain_graph.");
    }
    const bool keeps = torch::autograd::get_current_graph_task_keep_graph();
    torch::autograd::variable_list result = gradients_;
    const at::Tensor& scale = outer.at(0);
    const bool is_one = !scale.defined() || (scale.is_cpu() && scale.item<double>() == 1.0);
    for (std::size_t index = 0; index < result.size(); ++index) {
      if (!task_should_compute_output(index)) {
        result[index] = at::Tensor();
      } else if (!is_one) {
        result[index] = keeps ? result[index] * scale : result[index].mul_(scale);
      }
    }
    return result;
  }

  /// Gives the parameters their gradients without the engine. False, and nothing is changed: the engine is needed.
  bool accumulate() {
    std::vector<AccumulateGrad*> leaves;
    for (const torch::autograd::Edge& edge : next_edges()) {
      leaves.push_back(dynamic_cast<AccumulateGrad*>(edge.function.get()));
    }
    const auto is_simple = [](AccumulateGrad* leaf, const at::Tensor& gradient) {
      return leaf != nullptr && !has_hooks(*leaf) && fits(gradient, leaf->variable);
    };
    if (gradients_.empty() || has_hooks(*this) || !std::ranges::equal(leaves, gradients_, is_simple)) return false;
    const at::NoGradGuard no_grad;
    for (std::size_t index = 0; index < leaves.size(); ++index) {
      const at::Tensor gradient = std::exchange(gradients_[index], {});
      at::Tensor& own = leaves[index]->variable.mutable_grad();
      AccumulateGrad::accumulateGrad(leaves[index]->variable, own, gradient, /*num_expected_refs=*/1,
                                     [&](const at::Tensor& result) { own = result; });
    }
    gradients_.clear();
    return true;
  }

  /// Called: between apply() and the accumulation of what it gave, where the graph is not retained.
  void release_variables() override { gradients_.clear(); }
  std::string name() const override { return "CompiledBackward"; }

 private:
  torch::autograd::variable_list gradients_;
};

/// What holds a node: another kind of pointer before LibTorch 2.13.
using NodePointer = std::remove_cvref_t<decltype(std::declval<const at::TensorBase&>().grad_fn())>;

template <typename Pointer = NodePointer>
Pointer make_backward(std::vector<at::Tensor> gradients) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<CompiledBackward>(std::move(gradients));
  } else {
    return c10::make_intrusive<CompiledBackward>(std::move(gradients));
  }
}

}  // namespace

at::Tensor with_gradients(const at::Tensor& loss, const std::vector<at::Tensor>& parameters,
                          std::vector<at::Tensor> gradients) {
  if (!at::GradMode::is_enabled()) return loss;
  std::vector<at::Tensor> trained;
  std::vector<at::Tensor> kept;
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    if (!parameters[index].requires_grad()) continue;
    trained.push_back(parameters[index]);
    kept.push_back(std::move(gradients[index]));
  }
  if (trained.empty()) return loss;
  const NodePointer node = make_backward(std::move(kept));
  node->set_next_edges(torch::autograd::collect_next_edges(trained));
  at::Tensor result = loss.detach();
  torch::autograd::set_history(result, node);
  return result;
}

void backward_of_compiled(const at::Tensor& loss) {
  const NodePointer& node = loss.grad_fn();
  auto* const compiled = dynamic_cast<CompiledBackward*>(node.get());
  const bool is_direct = compiled != nullptr && loss.numel() == 1 && !torch::autograd::AnomalyMode::is_enabled();
  if (!is_direct || !compiled->accumulate()) loss.backward();
}

}  // namespace levin
