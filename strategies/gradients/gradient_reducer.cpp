#include "levin/strategies/gradients/gradient_reducer.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/text.h"
#include "levin/core/optimizers/optimizer_access.h"
#include "levin/strategies/gradients/power_sgd.h"
#include "levin/strategies/transport/gloo.h"
#include "levin/strategies/transport/shared_memory_backend.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

namespace {

using Future = c10::ivalue::Future;

c10::intrusive_ptr<Future> completed(const at::Tensor& gradients) {
  auto future = c10::make_intrusive<Future>(c10::TensorType::get());
  future->markCompleted(c10::IValue(gradients));
  return future;
}

c10::intrusive_ptr<c10d::Work> all_reduce(c10d::ProcessGroup& group, const at::Tensor& tensor,
                                          c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return group.allreduce(tensors, options);
}

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// What makes a bucket of gradients its mean over ranks.
class GradientHook final : public c10d::CommHookInterface {
 public:
  using Run = std::function<c10::intrusive_ptr<Future>(c10d::GradBucket&)>;
  explicit GradientHook(Run run) : run_(std::move(run)) {}
  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override { return run_(bucket); }
  at::Tensor parseHookResult(const c10::IValue& result) override { return c10d::detail::parseCppCommHookResult(result); }

 private:
  Run run_;
};

/// Of `votes`, which may be null: the world's, which outlive every reduction.
bool carries_votes(const BucketVoteChannel* votes, const c10d::GradBucket& bucket) {
  return votes != nullptr && bucket.getIndex() == 0;
}

/// Has ranks that share memory average buckets where they lie, if there is room.
GradientHook::Run average_in_shared_memory(const Group& group, SharedMemoryBackend& memory, bool buckets_are_gradients) {
  const std::shared_ptr<SharedMemoryBackend::Buckets> buckets = memory.take_buckets();
  return [=](c10d::GradBucket& bucket) {
    const at::Tensor gradients = bucket.getBufferRef();
    if (!buckets) return all_reduce(*group, gradients, c10d::ReduceOp::AVG)->getFuture();
    return completed(buckets->average(bucket.getIndex(), gradients, buckets_are_gradients));
  };
}

/// Sums buckets over ranks and divides them by their number, as LibTorch does by itself, in a type of fewer bits if one is
/// given.
GradientHook::Run mean(const Group& group, BucketVoteChannel* votes, std::optional<at::ScalarType> type) {
  return [=](c10d::GradBucket& bucket) {
    const at::Tensor buffer = bucket.getBufferRef();
    // Divided first, as overflow is nearer than underflow.
    const at::Tensor gradients = (type ? buffer.to(*type) : buffer).div_(group->getSize());
    const bool carries = carries_votes(votes, bucket);
    const auto done =
        all_reduce(*group, carries ? torch::cat({gradients, votes->elements(gradients)}) : gradients)->getFuture();
    if (!carries && !type) return done;
    // An error in the backward pass ends this hook, with its reducer, while buckets travel: what comes then has its own copies.
    const auto take = [buffer, carries, votes, is_compressed = type.has_value()](Future& future) {
      at::Tensor sum = c10d::detail::parseCppCommHookResult(future.value());
      const std::int64_t size = buffer.numel();
      if (carries) {
        votes->take(sum.narrow(0, size, sum.numel() - size));
        sum = sum.narrow(0, 0, size);
      }
      return c10::IValue(is_compressed ? buffer.copy_(sum) : sum);
    };
    return done->then(take, c10::TensorType::get());
  };
}

/// Waits for each exchange in the thread of the backward pass: one that waited where another ends would keep Gloo's threads
/// from ending it.
GradientHook::Run approximated_mean(const Group& group, BucketVoteChannel* votes, PowerSgd& power_sgd,
                                    const std::function<void(bool)>& on_wait) {
  return [group, votes, &power_sgd, on_wait](c10d::GradBucket& bucket) {
    const auto sum = [&](at::Tensor& tensor) {
      on_wait(true);
      all_reduce(*group, tensor)->wait();
      on_wait(false);
    };
    const bool carries = carries_votes(votes, bucket);
    const at::Tensor elements = carries ? votes->elements(bucket.getBufferRef()) : at::Tensor();
    const at::Tensor summed = power_sgd.reduce(bucket, group->getSize(), sum, elements);
    if (carries) votes->take(summed);
    return completed(bucket.getBufferRef());
  };
}

constexpr double kBytesPerMb = 1024.0 * 1024.0;

/// Buckets in the reverse order of parameters, which is about the order in which backward makes gradients ready, and their size
/// limits. The first is small, so that communication starts early.
auto assign_buckets(const std::vector<at::Tensor>& parameters, std::int64_t cap_bytes) {
  const std::vector<std::size_t> limits = {
      static_cast<std::size_t>(std::min<std::int64_t>(c10d::kDefaultFirstBucketBytes, cap_bytes)),
      static_cast<std::size_t>(cap_bytes)};
  auto [indices, size_limits] = c10d::compute_bucket_assignment_by_size(parameters, limits);
  std::reverse(indices.begin(), indices.end());
  std::reverse(size_limits.begin(), size_limits.end());
  return std::pair(std::move(indices), std::vector<std::int64_t>(size_limits.begin(), size_limits.end()));
}

/// Tensors made during its lifetime are not views for autograd, which forbids detaching views: Optimizer::zero_grad() can then
/// clear gradients that are parts of a bucket.
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

// What a rank says of a gradient, where it is not in how many rows a sparse one has numbers.
constexpr std::int64_t kNone = -2;
constexpr std::int64_t kDense = -1;

bool has_sparse_gradient(const torch::nn::Module& module) {
  const auto* embedding = dynamic_cast<const torch::nn::EmbeddingImpl*>(&module);
  const auto* bag = dynamic_cast<const torch::nn::EmbeddingBagImpl*>(&module);
  return (embedding != nullptr && embedding->options.sparse()) || (bag != nullptr && bag->options.sparse());
}

std::int64_t kind_of_gradient(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return kNone;
  if (!gradient.is_sparse() || !gradient.is_cpu() || gradient.is_complex()) return kDense;
  parameter.mutable_grad() = gradient.coalesce();
  return parameter.grad()._nnz();
}

// Divided first, as the reducer does it.
at::Tensor dense_mean(ProcessWorld& world, const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  const at::Tensor own = gradient.defined() ? gradient.to_dense() : torch::zeros_like(parameter);
  at::Tensor mean = own.div(world.process_group()->getSize()).resolve_conj().contiguous();
  all_reduce(*world.process_group(), as_real(mean))->wait();
  return mean;
}

/// The first rows[r] rows of rank r's, one rank's after the other's. `mine`: this rank's, with room for the most that one has.
at::Tensor gather_rows(c10d::ProcessGroup& group, const at::Tensor& mine, const std::vector<std::int64_t>& rows) {
  std::vector<at::Tensor> input = {mine};
  std::vector<std::vector<at::Tensor>> all(1);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) all[0].push_back(torch::empty_like(mine));
  group.allgather(all, input)->wait();
  for (std::size_t rank = 0; rank < rows.size(); ++rank) all[0][rank] = all[0][rank].narrow(0, 0, rows[rank]);
  return torch::cat(all[0]);
}

/// `rows`: in how many rows each rank's gradient, if it has one, has numbers.
at::Tensor sparse_mean(ProcessWorld& world, const at::Tensor& parameter, const std::vector<std::int64_t>& rows) {
  c10d::ProcessGroup& group = *world.process_group();
  const auto options = parameter.options().requires_grad(false);
  std::vector<std::int64_t> shape = parameter.sizes().vec();
  shape[0] = std::max<std::int64_t>(1, *std::max_element(rows.begin(), rows.end()));
  const at::Tensor indices = torch::zeros({shape[0], 1}, torch::kLong);
  const at::Tensor values = torch::zeros(shape, options);
  if (const at::Tensor& own = parameter.grad(); own.defined()) {
    indices.narrow(0, 0, own._nnz()).copy_(own.indices().t());
    values.narrow(0, 0, own._nnz()).copy_(own.values()).div_(group.getSize());
  }
  const at::Tensor all = gather_rows(group, indices, rows).t();
  return torch::sparse_coo_tensor(all, gather_rows(group, values, rows), parameter.sizes(), options.layout(at::kSparse))
      .coalesce();
}

/// The hook, where it is not LibTorch's own mean: in a compressed form, with votes, or by ranks that share memory, which
/// average while they combine, and read the first bucket where it is written. Votes are never compressed: they are sums of
/// small integers, exact in each format that gradients travel in, and PowerSGD sums them with what it does not approximate.
/// Null when LibTorch's own does. `on_wait`: see GradientReducer::Context.
GradientHook::Run find_hook(const Group& group, const DdpOptions& options, const GradientReducer::Context& context,
                            const std::function<void(bool)>& on_wait) {
  BucketVoteChannel* const votes = context.votes;
  switch (options.comm_hook) {
    case CommHook::kFp16Compress:
      return mean(group, votes, at::kHalf);
    case CommHook::kBf16Compress:
      return mean(group, votes, at::kBFloat16);
    case CommHook::kPowerSgd:
      return approximated_mean(group, votes, *context.power_sgd, on_wait);
    case CommHook::kNone:
      break;
  }
  if (votes != nullptr) return mean(group, votes, std::nullopt);
  if (context.shared_memory == nullptr) return nullptr;
  return average_in_shared_memory(group, *context.shared_memory, options.gradient_as_bucket_view);
}

}  // namespace

GradientReducer::GradientReducer(const torch::nn::Module& module, const c10::intrusive_ptr<c10d::ProcessGroup>& process_group,
                                 const DdpOptions& options, const Context& context)
    : options_(options), context_(context) {
  for (const auto& entry : distinct_parameters(module)) {
    if (!entry.second.requires_grad() || is_one_of(entry.second, context.left_out)) continue;
    names_.push_back(entry.first);
    parameters_.push_back(entry.second);
  }
  if (options.find_unused_parameters) {
    // First of all: buckets are filled from the end, so that the anchor, whose gradient comes last, holds up none but the last.
    parameters_.insert(parameters_.begin(), torch::zeros({1}, parameters_.front().options().requires_grad(true)));
    names_.insert(names_.begin(), "the reduction's anchor");
  }
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t index = 0; index < names_.size(); ++index) names.emplace(index, names_[index]);
  const auto cap_bytes = static_cast<std::int64_t>(options.bucket_cap_mb * kBytesPerMb);
  auto [indices, size_limits] = assign_buckets(parameters_, cap_bytes);
  {
    const PlainTensors plain_tensors;
    reducer_ = make_reducer<c10d::Reducer>(std::move(size_limits), parameters_, std::move(indices), process_group,
                                           std::vector<bool>(parameters_.size(), false), cap_bytes,
                                           options.find_unused_parameters, options.gradient_as_bucket_view, std::move(names),
                                           std::min<std::int64_t>(c10d::kDefaultFirstBucketBytes, cap_bytes),
                                           /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false);
  }
  if (!options.find_unused_parameters) {
    // LibTorch's reducer rebuilds its buckets after the first backward pass, and a gradient's position in its bucket decides
    // the order in which ranks are summed. A pass over zeros does that in advance, so that a run's first step sums like all
    // others, and a resumed run gets the bits of an uninterrupted one. Ranks synchronize in it here, not before the first
    // step's backward pass.
    reduce_zeros();
    for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
    rebuild_buckets();
    // As if all had arrived in it: a backward pass before the next prepare() counts as none.
    last_pass_.assign(parameters_.size(), pass_);
  }
  watch_gradients();
  const auto on_wait = [this](bool waits) {
    if (reports_last_gradient() && context_.on_wait) context_.on_wait(waits);
  };
  if (const auto run = find_hook(process_group, options, context, on_wait)) {
    reducer_->register_comm_hook(std::make_unique<GradientHook>(run));
  }
}

GradientReducer::~GradientReducer() {
  for (std::size_t index = 0; index < hooks_.size(); ++index) parameters_[index].remove_hook(hooks_[index]);
}

void GradientReducer::rebuild_buckets() {
  const PlainTensors plain_tensors;
  reducer_->rebuild_buckets();
}

void GradientReducer::watch_gradients() {
  came_frozen_.resize(parameters_.size());
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    hooks_.push_back(parameters_[index].register_hook([this, index](const at::Tensor& gradient) {
      check_is_dense(gradient, index);
      note_arrival(index);
    }));
  }
}

void GradientReducer::check_is_dense(const at::Tensor& gradient, std::size_t index) const {
  if (!gradient.is_sparse()) return;
  throw MisuseError("strategy ddp: the gradient of " + names_[index] +
                    " is sparse, which on several ranks only torch::nn::Embedding and EmbeddingBag support. Use one of these "
                    "with sparse(true), or dense gradients.");
}

void GradientReducer::note_arrival(std::size_t index) {
  // Autograd keeps no gradient for it, and the bucket has zeros.
  if (!parameters_[index].requires_grad() && !parameters_[index].grad().defined()) came_frozen_[index] = 1;
  if (last_pass_.empty() || std::exchange(last_pass_[index], pass_) == pass_) return;
  if (++arrived_ == parameters_.size() && reports_last_gradient() && context_.on_wait) context_.on_wait(true);
}

void GradientReducer::prepare(const at::Tensor& loss) {
  given_zeros_.clear();
  ++pass_;
  arrived_ = 0;
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
  if (last_pass_.empty()) return;
  std::vector<std::size_t> missing;
  for (std::size_t index = 0; index < parameters_.size(); ++index) {
    if (last_pass_[index] != pass_) missing.push_back(index);
  }
  if (missing.empty()) return;
  const std::vector<at::Tensor> own = module.parameters();
  std::vector<std::string> names;
  std::vector<at::Tensor> let_go;
  for (const std::size_t index : missing) {
    const at::Tensor& parameter = parameters_[index];
    if (is_one_of(parameter, own) && parameter.requires_grad() && !context_.learns_unused) {
      names.push_back(names_[index]);
    } else {
      let_go.push_back(parameter);
    }
  }
  if (names.empty()) return add_zeros(let_go, /*prepares=*/false);
  if (options_.static_graph) {
    throw MisuseError(
        "strategy ddp: with static_graph each step must use the parameters of the first, but the backward pass gave no "
        "gradient to " +
        join(names) + ", so its reduction could not end. Set find_unused_parameters instead.");
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

std::vector<at::Tensor> non_bucketed_parameters(const torch::nn::Module& module) {
  std::vector<at::Tensor> sparse;
  const auto add = [&](const torch::nn::Module& part) {
    if (!has_sparse_gradient(part)) return;
    for (const at::Tensor& weight : part.parameters(/*recurse=*/false)) sparse.push_back(weight);
  };
  add(module);
  for (const auto& part : module.modules(/*include_self=*/false)) add(*part);
  std::vector<at::Tensor> non_bucketed;
  for (const auto& [name, parameter] : distinct_parameters(module)) {
    if (parameter.is_complex() || is_one_of(parameter, sparse)) non_bucketed.push_back(parameter);
  }
  return non_bucketed;
}

void reduce_non_bucketed(ProcessWorld& world, const std::vector<at::Tensor>& parameters, const ExchangeSite& site) {
  if (parameters.empty()) return;
  std::vector<std::int64_t> mine;
  for (const at::Tensor& parameter : parameters) mine.push_back(kind_of_gradient(parameter));
  const std::vector<std::byte> bytes = RankExchange(world.control_group()).gather_bytes(std::as_bytes(std::span(mine)), site);
  std::vector<std::int64_t> all(bytes.size() / sizeof(std::int64_t));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  const at::NoGradGuard no_grad;
  world.board().begin_reduction();
  for (std::size_t index = 0; index < parameters.size(); ++index) {
    bool is_dense = false;
    bool is_defined = false;
    std::vector<std::int64_t> rows;
    for (std::size_t at = index; at < all.size(); at += parameters.size()) {
      is_dense |= all[at] == kDense;
      is_defined |= all[at] != kNone;
      rows.push_back(std::max<std::int64_t>(0, all[at]));
    }
    if (!is_defined) continue;
    const at::Tensor& parameter = parameters[index];
    parameter.mutable_grad() = is_dense ? dense_mean(world, parameter) : sparse_mean(world, parameter, rows);
  }
  world.board().end_reduction();
}

at::Tensor as_real(const at::Tensor& tensor) { return tensor.is_complex() ? torch::view_as_real(tensor) : tensor; }

}  // namespace levin
