#include "levin/core/step/gathered_gradients.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "levin/core/base/format.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/metrics.h"
#include "levin/core/strategy.h"

namespace levin {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Receives the gradient of a gather from a graph; it may outlive the run.
struct Gradient final : torch::CustomClassHolder {
  explicit Gradient(std::function<at::Tensor(const at::Tensor& own)> its_sum) : sum(std::move(its_sum)) {}
  std::function<at::Tensor(const at::Tensor& own)> sum;
};

class Gathering final : public torch::autograd::Function<Gathering> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& mine, const Strategy& strategy, SourceLocation where,
                            const c10::intrusive_ptr<Gradient>& gradient) {
    context->saved_data["gradient"] = c10::IValue::make_capsule(gradient);
    return strategy.all_gather(mine, where);
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["gradient"].toCapsule();
    return {static_cast<const Gradient&>(*capsule).sum(gradients[0]), {}, {}, {}};
  }
};

/// A loss whose backward pass reaches `other`, with a gradient of zero.
class Tie final : public torch::autograd::Function<Tie> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& loss, const at::Tensor& other) {
    context->saved_data["zeros"] = other.new_zeros({}).expand_as(other);
    return loss.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0], context->saved_data["zeros"].toTensor()};
  }
};

}  // namespace

std::vector<bool> marked_by_any(const Strategy& strategy, const std::vector<std::byte>& marks, const ExchangeSite& site) {
  const std::vector<std::byte> by_rank = RankExchange(strategy.control_group()).gather_bytes(marks, site);
  std::vector<bool> any(marks.size(), false);
  for (std::size_t at = 0; at < by_rank.size(); ++at) {
    if (by_rank[at] != std::byte{}) any[at % marks.size()] = true;
  }
  return any;
}

void GatheredGradients::begin_batch() {
  first_ += static_cast<std::int64_t>(gathers_.size());
  gathers_.clear();
}

at::Tensor GatheredGradients::gather(const at::Tensor& tensor, SourceLocation where) {
  if (strategy_->world_size() == 1) return tensor.unsqueeze(0).clone();
  const std::uint8_t needs_one = at::GradMode::is_enabled() && tensor.requires_grad() ? 1 : 0;
  const auto by_rank = RankExchange(strategy_->control_group())
                           .gather_values(needs_one, {format("all_gather with gradients at {}", CallSite(where).str()),
                                                      "a module gathers on all ranks or on none"});
  if (std::ranges::max(by_rank) == 0) return strategy_->all_gather(tensor, where);
  // Ranks meet in backward passes; this one does so even if its own tensor needs no gradient.
  const at::AutoGradMode with_gradients(true);
  const std::int64_t number = first_ + static_cast<std::int64_t>(gathers_.size());
  const auto sum = [gathers = shared_from_this(), number](const at::Tensor& own) { return gathers->gradient(number, own); };
  const at::Tensor mine = needs_one != 0 ? tensor : tensor.detach().requires_grad_();
  const at::Tensor all = Gathering::apply(mine, *strategy_, where, c10::make_intrusive<Gradient>(sum));
  gathers_.push_back({all, where});
  return all;
}

std::vector<std::byte> GatheredGradients::reached_from(const at::Tensor& loss) const {
  std::unordered_set<const torch::autograd::Node*> reached;
  std::vector<const torch::autograd::Node*> waiting;
  const auto reach = [&](const torch::autograd::Node* node) {
    if (node != nullptr && reached.insert(node).second) waiting.push_back(node);
  };
  if (loss.defined()) reach(loss.grad_fn().get());
  while (!waiting.empty()) {
    const torch::autograd::Node* const node = waiting.back();
    waiting.pop_back();
    for (const torch::autograd::Edge& edge : node->next_edges()) reach(edge.function.get());
  }
  std::vector<std::byte> marks;
  for (const Gather& gather : gathers_) marks.push_back(std::byte{reached.contains(gather.all.grad_fn().get())});
  return marks;
}

at::Tensor GatheredGradients::tied(const at::Tensor& loss) {
  const std::vector<std::byte> own = reached_from(loss);
  const std::vector<bool> reached = marked_by_any(
      *strategy_, own, {"which gathered tensors a loss uses", "all have gathered them, and reach the same backward passes"});
  at::Tensor tied = loss;
  for (std::size_t index = 0; index < gathers_.size(); ++index) {
    if (!reached[index] || own[index] != std::byte{}) continue;
    const at::Tensor& all = gathers_[index].all;
    tied = Tie::apply(tied.defined() ? tied : at::zeros({}, all.options().requires_grad(false)), all);
  }
  return tied;
}

at::Tensor GatheredGradients::gradient(std::int64_t number, const at::Tensor& own) {
  if (at::GradMode::is_enabled()) {
    throw MisuseError("all_gather() with gradients has first derivatives only: leave create_graph out.");
  }
  const auto by_rank = RankExchange(strategy_->control_group())
                           .gather_values(number, {"a gradient of all_gather",
                                                   "their losses reach the same gathered tensors, in the same order"});
  if (std::ranges::any_of(by_rank, [&](std::int64_t other) { return other != by_rank.front(); }) || number < first_) {
    const auto where = [&](std::int64_t of_rank) {
      return of_rank < first_ ? std::string("an earlier batch")
                              : CallSite(gathers_.at(static_cast<std::size_t>(of_rank - first_)).where).str();
    };
    std::string text = "ranks came to the gradients of different all_gather() calls:";
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) text += format("\n  rank {}: {}", rank, where(by_rank[rank]));
    throw DesyncError(
        text +
        "\nGather in the same order on all ranks, use what was gathered within its batch, and let manual_backward() "
        "run the backward pass.");
  }
  const SourceLocation where = gathers_.at(static_cast<std::size_t>(number - first_)).where;
  return strategy_->all_reduce(own, "sum", where).select(0, strategy_->rank());
}

}  // namespace levin
