#include "levin/strategies/gradients/gradient_reducer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/text.h"
#include "levin/core/optimizers/optimizer_access.h"

namespace levin {

namespace {

constexpr double kBytesPerMb = 1024.0 * 1024.0;

struct Buckets {
  std::vector<std::vector<std::size_t>> indices;
  std::vector<std::int64_t> size_limits;
};

/// Buckets in the reverse order of parameters, which is about the order in which backward makes gradients ready. The first is
/// small, so that communication starts early.
Buckets assign_buckets(const std::vector<at::Tensor>& parameters, std::int64_t cap_bytes) {
  const std::vector<std::size_t> limits = {
      static_cast<std::size_t>(std::min<std::int64_t>(c10d::kDefaultFirstBucketBytes, cap_bytes)),
      static_cast<std::size_t>(cap_bytes)};
  auto [indices, size_limits] = c10d::compute_bucket_assignment_by_size(parameters, limits);
  std::reverse(indices.begin(), indices.end());
  std::reverse(size_limits.begin(), size_limits.end());
  return {std::move(indices), {size_limits.begin(), size_limits.end()}};
}

/// Tensors that are made while it lives are no views for autograd, which lets nobody detach a view: gradients that are parts of
/// a bucket can then be cleared by Optimizer::zero_grad().
using PlainTensors = at::AutoDispatchBelowADInplaceOrView;

/// Frozen parameters among these require a gradient while it lives.
class Unfrozen {
 public:
  explicit Unfrozen(const std::vector<at::Tensor>& parameters) {
    std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(frozen_),
                 [](const at::Tensor& parameter) { return !parameter.requires_grad(); });
    for (const at::Tensor& parameter : frozen_) parameter.set_requires_grad(true);
  }
  ~Unfrozen() {
    for (const at::Tensor& parameter : frozen_) parameter.set_requires_grad(false);
  }
  Unfrozen(const Unfrozen&) = delete;
  Unfrozen& operator=(const Unfrozen&) = delete;

 private:
  std::vector<at::Tensor> frozen_;
};

/// A loss that needs every one of these and gives each a gradient of exactly zero, whatever its value: the gradient is 0 * 1.
at::Tensor zero_loss(const std::vector<at::Tensor>& parameters) {
  at::Tensor loss = torch::zeros({}, parameters.front().options().requires_grad(false));
  for (const at::Tensor& parameter : parameters) loss = loss + parameter.sum().to(loss.options()) * 0;
  return loss;
}

/// The constructor takes the size limits of buckets from LibTorch 2.13 on.
template <class Reducer, class... Arguments>
std::unique_ptr<Reducer> make_reducer(std::vector<std::int64_t> size_limits, Arguments... arguments) {
  if constexpr (std::is_constructible_v<Reducer, Arguments..., std::vector<std::int64_t>>) {
    return std::make_unique<Reducer>(std::move(arguments)..., std::move(size_limits));
  } else {
    return std::make_unique<Reducer>(std::move(arguments)...);
  }
}

}  // namespace

/// Which parameters got a gradient in the backward pass under way.
struct GradientReducer::Arrivals {
  std::int64_t pass = 0;
  std::atomic<std::size_t> count = 0;   ///< of this pass; gradients on different devices come in different threads
  std::vector<std::int64_t> last_pass;  ///< by parameter: the last one that reached it
};

GradientReducer::GradientReducer(const torch::nn::Module& module, const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                 const Options& options, BucketVoteChannel* votes)
    : options_(options) {
  for (const auto& entry : distinct_parameters(module)) {
    const auto is_it = [&](const at::Tensor& left_out) { return left_out.is_same(entry.second); };
    if (!entry.second.requires_grad() || std::any_of(options.left_out.begin(), options.left_out.end(), is_it)) continue;
    names_.push_back(entry.first);
    parameters_.push_back(entry.second);
  }
  if (options.find_unused_parameters) add_anchor();
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t index = 0; index < names_.size(); ++index) names.emplace(index, names_[index]);
  const auto cap_bytes = static_cast<std::int64_t>(options.bucket_cap_mb * kBytesPerMb);
  Buckets buckets = assign_buckets(parameters_, cap_bytes);
  {
    const PlainTensors plain_tensors;
    reducer_ = make_reducer<c10d::Reducer>(std::move(buckets.size_limits), parameters_, std::move(buckets.indices),
                                           process_group, std::vector<bool>(parameters_.size(), false), cap_bytes,
                                           options.find_unused_parameters, options.gradient_as_bucket_view, std::move(names),
                                           std::min<std::int64_t>(c10d::kDefaultFirstBucketBytes, cap_bytes),
                                           /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false);
  }
  if (!options.find_unused_parameters) settle_buckets();
  if (!options.find_unused_parameters) arrivals_ = std::make_unique<Arrivals>();
  watch_gradients();
  const auto on_wait = [this](bool waits) {
    if (tells_last_gradient() && options_.on_wait) options_.on_wait(waits);
  };
  auto hook = make_gradient_hook(process_group, {.form = options.comm_hook,
                                                 .shared_memory = options.shared_memory,
                                                 .buckets_are_gradients = options.gradient_as_bucket_view,
                                                 .votes = votes,
                                                 .power_sgd = options.power_sgd,
                                                 .on_wait = on_wait});
  if (hook) reducer_->register_comm_hook(std::move(hook));
}

GradientReducer::~GradientReducer() {
  for (std::size_t index = 0; index < hooks_.size(); ++index) parameters_[index].remove_hook(hooks_[index]);
}

void GradientReducer::add_anchor() {
  // First of all: buckets are filled from the end, so that the anchor, whose gradient comes last, holds up none but the last.
  parameters_.insert(parameters_.begin(), torch::zeros({1}, parameters_.front().options().requires_grad(true)));
  names_.insert(names_.begin(), "the reduction's anchor");
}

void GradientReducer::settle_buckets() {
  reduce_zeros();
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  rebuild_buckets();
}

void GradientReducer::rebuild_buckets() {
  const PlainTensors plain_tensors;
  reducer_->rebuild_buckets();
}

void GradientReducer::watch_gradients() {
  came_frozen_.resize(parameters_.size());
  if (arrivals_) arrivals_->last_pass.resize(parameters_.size());
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    hooks_.push_back(parameters_[index].register_hook([this, index](const at::Tensor& gradient) {
      check_is_dense(gradient, index);
      note_arrival(index);
    }));
  }
}

void GradientReducer::check_is_dense(const at::Tensor& gradient, std::size_t index) const {
  if (!gradient.is_sparse()) return;
  throw MisuseError(
      "strategy ddp: the gradient of " + names_[index] +
      " is sparse, which on several ranks those of torch::nn::Embedding and EmbeddingBag may be. Use one of these "
      "with sparse(true), or leave sparse out.");
}

void GradientReducer::note_arrival(std::size_t index) {
  // Autograd keeps no gradient for it, and the bucket has zeros.
  if (!parameters_[index].requires_grad() && !parameters_[index].grad().defined()) came_frozen_[index] = 1;
  if (!arrivals_ || std::exchange(arrivals_->last_pass[index], arrivals_->pass) == arrivals_->pass) return;
  if (++arrivals_->count == parameters_.size() && tells_last_gradient() && options_.on_wait) options_.on_wait(true);
}

void GradientReducer::prepare(const at::Tensor& loss) {
  given_zeros_.clear();
  if (arrivals_) {
    ++arrivals_->pass;
    arrivals_->count = 0;
  }
  rebuild_buckets();
  std::vector<at::Tensor> outputs;
  if (options_.find_unused_parameters) {
    // A gradient of earlier batches makes a parameter one that is used, also when it is frozen by now.
    anchored_ = {parameters_.front()};
    std::copy_if(parameters_.begin(), parameters_.end(), std::back_inserter(anchored_),
                 [](const at::Tensor& parameter) { return !parameter.requires_grad() && parameter.grad().defined(); });
    const Unfrozen unfrozen(anchored_);
    anchor_loss_ = zero_loss(anchored_);
    outputs = {loss, anchor_loss_};
  }
  reducer_->prepare_for_backward(outputs);
}

void GradientReducer::finish(const torch::nn::Module& module) {
  if (anchor_loss_.defined()) {
    const Unfrozen unfrozen(anchored_);
    std::exchange(anchor_loss_, at::Tensor()).backward();
  }
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (std::exchange(came_frozen_[index], 0) != 0) given_zeros_.push_back(parameters_[index]);
  }
  if (!arrivals_) return;
  std::vector<std::size_t> missing;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (arrivals_->last_pass[index] != arrivals_->pass) missing.push_back(index);
  }
  if (missing.empty()) return;
  const std::vector<at::Tensor> own = module.parameters();
  std::vector<std::string> names;
  std::vector<at::Tensor> let_go;
  for (const std::size_t index : missing) {
    const at::Tensor& parameter = parameters_[index];
    const bool is_own = std::any_of(own.begin(), own.end(), [&](const at::Tensor& other) { return other.is_same(parameter); });
    if (is_own && parameter.requires_grad() && !options_.learns_unused) {
      names.push_back(names_[index]);
    } else {
      let_go.push_back(parameter);
    }
  }
  if (names.empty()) return add_zeros(let_go, /*prepares=*/false);
  if (options_.static_graph) {
    throw MisuseError(
        "strategy ddp: with static_graph each step must use what the first one used, but the backward pass gave "
        "no gradient to " +
        join(names) + ", so its reduction could not end. Set find_unused_parameters in its place.");
  }
  throw MisuseError("strategy ddp: the backward pass gave no gradient to " + join(names) +
                    ", so its reduction could not end. Use every parameter in the loss, freeze those that are not used "
                    "(requires_grad_(false)), or set the strategy to {class_path: ddp, init_args: {find_unused_parameters: "
                    "true}}.");
}

void GradientReducer::reduce_zeros() {
  add_zeros(parameters_, /*prepares=*/true);
  anchor_loss_.reset();
}

void GradientReducer::add_zeros(const std::vector<at::Tensor>& parameters, bool prepares) {
  const Unfrozen unfrozen(parameters);
  const at::Tensor loss = zero_loss(parameters);
  if (prepares) prepare(loss);
  std::copy_if(parameters.begin(), parameters.end(), std::back_inserter(given_zeros_),
               [](const at::Tensor& parameter) { return !parameter.grad().defined(); });
  loss.backward();
}

}  // namespace levin
