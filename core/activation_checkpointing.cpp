#include "levin/core/activation_checkpointing.h"

#include <ATen/SequenceNumber.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/custom_class.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <unordered_set>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/core/random/rng_state.h"

namespace levin {
namespace {

using detail::Tensors;
using torch::autograd::AutogradContext;
using torch::autograd::Node;

/// Autocast, on the CPU and on a device.
struct Autocast {
  explicit Autocast(at::DeviceType device) : states{state(at::kCPU), state(device)} {}
  void apply() const {
    for (const State& each : states) {
      at::autocast::set_autocast_enabled(each.device, each.enabled);
      at::autocast::set_autocast_dtype(each.device, each.type);
    }
  }

  struct State {
    at::DeviceType device;
    bool enabled;
    at::ScalarType type;
  };
  static State state(at::DeviceType device) {
    return {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
  }
  std::array<State, 2> states;
};

/// During its lifetime. It does not use casts of weights that the outer region caches: they are computed outside of the part.
auto with_autocast(const Autocast& autocast) {
  const bool was_cached = at::autocast::is_autocast_cache_enabled();
  auto back = c10::make_scope_exit([before = Autocast(autocast.states[1].device), was_cached] {
    before.apply();
    at::autocast::set_autocast_cache_enabled(was_cached);
  });
  autocast.apply();
  at::autocast::set_autocast_cache_enabled(false);
  return back;
}

Tensors copies(const Tensors& tensors) {
  Tensors copied;
  for (const at::Tensor& tensor : tensors) copied.push_back(tensor.detach().clone());
  return copied;
}

/// Their version stays: a graph that has saved them does not notice.
void put(const Tensors& values, const Tensors& buffers) {
  const at::AutoDispatchBelowADInplaceOrView unseen;
  for (std::size_t index = 0; index < buffers.size(); ++index) buffers[index].copy_(values[index]);
}

/// What a part needs for its recomputation, except its inputs.
struct CheckpointedPart : torch::CustomClassHolder {
  CheckpointedPart(std::function<Tensors(const Tensors&)> part, Tensors changed, at::DeviceType device)
      : body(std::move(part)),
        buffers(std::move(changed)),
        buffers_before(copies(buffers)),
        random(RandomSnapshot::take()),
        autocast(device) {}

  std::function<Tensors(const Tensors&)> body;
  Tensors buffers;
  Tensors buffers_before;
  RandomSnapshot random;
  Autocast autocast;
  std::ptrdiff_t inputs = 0;  ///< of the saved tensors; the others are parameters
  Tensors outputs = {};       ///< of the forward pass, until they are returned
};

Tensors detached(const Tensors& inputs) {
  Tensors leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().set_requires_grad(input.requires_grad()));
  return leaves;
}

/// The parameters of the outputs: the leaves of their graph except the inputs. `first`: the graph's first sequence number.
Tensors parameters_of(const Tensors& outputs, const Tensors& inputs, std::uint64_t first) {
  Tensors parameters;
  std::vector<Node*> open;
  std::unordered_set<Node*> seen;
  const auto visit = [&](Node* node) {
    if (node != nullptr && seen.insert(node).second) open.push_back(node);
  };
  for (const at::Tensor& output : outputs) {
    if (output.requires_grad()) visit(torch::autograd::impl::gradient_edge(output).function.get());
  }
  while (!open.empty()) {
    Node* node = open.back();
    open.pop_back();
    if (const auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      if (!is_one_of(leaf->variable, inputs)) parameters.push_back(leaf->variable);
      continue;
    }
    if (node->sequence_nr() < first) {
      throw MisuseError(
          format("A function of levin::checkpointed() uses a tensor that was computed outside of it, by {}. "
                 "Make it an input of the function.",
                 node->name()));
    }
    for (const auto& edge : node->next_edges()) visit(edge.function.get());
  }
  return parameters;
}

/// The graph's node of the whole part. Its inputs are the part's, and the parameters that it uses, so that their gradients come
/// in the usual order and with their hooks.
class PartFunction : public torch::autograd::Function<PartFunction> {
 public:
  static Tensors forward(AutogradContext* context, const c10::intrusive_ptr<CheckpointedPart>& part, at::TensorList tensors) {
    context->save_for_backward(tensors.vec());
    context->saved_data["part"] = c10::IValue::make_capsule(part);
    context->set_materialize_grads(false);
    Tensors results;
    Tensors constant;
    for (const at::Tensor& output : std::exchange(part->outputs, {})) {
      results.push_back(output.detach());
      if (!output.requires_grad()) constant.push_back(results.back());
    }
    context->mark_non_differentiable(constant);
    return results;
  }

  static Tensors backward(AutogradContext* context, const Tensors& gradients) {
    if (at::GradMode::is_enabled())
      throw MisuseError("levin::checkpointed() does not support gradients of gradients (create_graph).");
    const auto part = c10::static_intrusive_pointer_cast<CheckpointedPart>(context->saved_data["part"].toCapsule());
    const Tensors saved = context->get_saved_variables();
    Tensors tensors = detached({saved.begin(), saved.begin() + part->inputs});
    const Tensors parameters(saved.begin() + part->inputs, saved.end());

    const auto put_back = c10::make_scope_exit([&part, now = copies(part->buffers)] { put(now, part->buffers); });
    put(part->buffers_before, part->buffers);
    const Tensors outputs = compute_anew(*part, tensors);
    if (outputs.size() != gradients.size()) {
      throw MisuseError(
          format("A function of levin::checkpointed() returned {} tensors in the forward pass and {} when it was recomputed.",
                 gradients.size(), outputs.size()));
    }
    Tensors roots, gradients_of_roots;
    for (std::size_t index = 0; index < outputs.size(); ++index) {
      if (!gradients[index].defined() || !outputs[index].requires_grad()) continue;
      roots.push_back(outputs[index]);
      gradients_of_roots.push_back(gradients[index]);
    }
    tensors.insert(tensors.end(), parameters.begin(), parameters.end());
    Tensors found{at::Tensor()};  // the part itself has none
    if (roots.empty()) {
      found.resize(1 + tensors.size());
      return found;
    }
    Tensors wanted;
    for (const at::Tensor& tensor : tensors) {
      if (tensor.requires_grad()) wanted.push_back(tensor);
    }
    // Hooks of parameters get the gradients of the whole pass, not those of one part.
    std::vector<std::vector<std::unique_ptr<torch::autograd::FunctionPreHook>>> hooks(parameters.size());
    const auto swap_hooks = [&] {
      for (std::size_t index = 0; index < parameters.size(); ++index)
        hooks[index].swap(torch::autograd::impl::hooks(parameters[index]));
    };
    swap_hooks();
    const auto hooks_back = c10::make_scope_exit(swap_hooks);
    Tensors computed = torch::autograd::grad(roots, wanted, gradients_of_roots, /*retain_graph=*/false,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    auto next = computed.begin();
    for (const at::Tensor& tensor : tensors) found.push_back(tensor.requires_grad() ? std::move(*next++) : at::Tensor());
    return found;
  }

 private:
  static Tensors compute_anew(const CheckpointedPart& part, const Tensors& inputs) {
    const RandomScope random;
    part.random.restore();
    const auto autocast = with_autocast(part.autocast);
    const at::AutoGradMode with_graph(true);
    return part.body(inputs);
  }
};

at::DeviceType device_of(const Tensors& inputs) {
  const auto found = std::find_if(inputs.begin(), inputs.end(), [](const at::Tensor& input) { return !input.is_cpu(); });
  return found == inputs.end() ? at::kCPU : found->device().type();
}

/// The forward pass. Returns its inputs, the beginning of the outputs' graph.
Tensors compute(CheckpointedPart& part, const Tensors& inputs) {
  const Tensors given = detached(inputs);
  std::vector<std::int64_t> versions;
  for (const at::Tensor& input : given) versions.push_back(input._version());
  const auto autocast = with_autocast(part.autocast);
  part.outputs = part.body(given);
  for (std::size_t index = 0; index < given.size(); ++index) {
    if (given[index]._version() == versions[index]) continue;
    throw MisuseError(
        format("A function of levin::checkpointed() changes its input {} in place, so it cannot be recomputed.", index));
  }
  return given;
}

}  // namespace

Tensors detail::checkpointed(std::function<Tensors(const Tensors&)> body, const Tensors& inputs, const Tensors& buffers) {
  if (!at::GradMode::is_enabled()) return body(inputs);
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) throw MisuseError("An input of levin::checkpointed() is an undefined tensor.");
  }
  Tensors changed;
  std::copy_if(buffers.begin(), buffers.end(), std::back_inserter(changed),
               [](const at::Tensor& buffer) { return buffer.defined(); });
  const auto part = c10::make_intrusive<CheckpointedPart>(std::move(body), std::move(changed), device_of(inputs));
  const std::uint64_t first = at::sequence_number::peek();
  const Tensors given = compute(*part, inputs);
  const auto has_gradient = [](const at::Tensor& output) { return output.requires_grad(); };
  if (std::none_of(part->outputs.begin(), part->outputs.end(), has_gradient)) return std::move(part->outputs);
  Tensors tensors = inputs;
  const Tensors parameters = parameters_of(part->outputs, given, first);
  tensors.insert(tensors.end(), parameters.begin(), parameters.end());
  part->inputs = static_cast<std::ptrdiff_t>(inputs.size());
  return PartFunction::apply(part, at::TensorList(tensors));
}

at::Tensor checkpointed_sequential(const torch::nn::Sequential& layers, std::int64_t segments, const at::Tensor& input) {
  const auto count = static_cast<std::int64_t>(layers->size());
  if (segments < 1 || segments > count) {
    throw MisuseError(
        format("levin::checkpointed_sequential() got {} segments for {} layers; there are 1 to {}.", segments, count, count));
  }
  const std::int64_t length = count / segments;
  at::Tensor value = input;
  for (std::int64_t segment = 0; segment < segments; ++segment) {
    const std::int64_t end = segment + 1 == segments ? count : (segment + 1) * length;
    torch::nn::Sequential part;
    for (std::int64_t index = segment * length; index < end; ++index) part->push_back(*(layers->begin() + index));
    value = segment + 1 == segments ? part->forward(value) : checkpointed(part, value);
  }
  return value;
}

}  // namespace levin
