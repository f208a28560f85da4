#include "levin/strategies/transport/shared_memory_backend.h"

#include <ATen/core/Tensor.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"

namespace levin {

namespace {

/// The first bucket is averaged in a window up to this size, which takes two ranks one meeting; larger ones where they lie,
/// which takes two meetings, and reads and writes less.
constexpr std::size_t kMostBytesOfWindow = std::size_t{512} << 10;

SharedMemoryCollectives::Values values_of(const at::Tensor& contiguous, const c10d::ReduceOp& op) {
  return {bytes_of(contiguous), static_cast<std::size_t>(contiguous.element_size()),
          combine_values(op, contiguous.scalar_type())};
}

}  // namespace

ContiguousTensor::ContiguousTensor(const at::Tensor& tensor) : tensor_(tensor), contiguous_(tensor.contiguous()) {
  if (tensor.device().is_cpu()) return;
  throw MisuseError(format("a tensor on {} cannot travel through shared memory", tensor.device().str()));
}

void ContiguousTensor::write_back() const {
  if (!contiguous_.is_same(tensor_)) tensor_.copy_(contiguous_);
}

std::span<std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<std::byte*>(contiguous.mutable_data_ptr()), contiguous.nbytes()};
}

c10::intrusive_ptr<c10::ivalue::Future> TensorsWork::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (has_ended_) complete_future();
  }
  return future_;
}

void TensorsWork::complete_future() {
  if (error_) {
    future_->setError(error_);
  } else {
    future_->markCompleted(c10::IValue(tensors_));
  }
}

void TensorsWork::end(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(future_mutex_);
    has_ended_ = true;
    error_ = error;
    if (future_) complete_future();
  }
  finish(error);
}

std::string call_text(const char* call, const at::Tensor& tensor) {
  return format("{} of {}", call, c10::toString(tensor.scalar_type()));
}

std::string call_text(const char* call, const c10d::ReduceOp& op, const at::Tensor& tensor) {
  return format("{}({}) of {}", call, reduce_op_name(op), c10::toString(tensor.scalar_type()));
}

SharedMemoryBackend::SharedMemoryBackend(std::unique_ptr<SharedMemoryCollectives> collectives)
    : Backend(collectives->rank(), collectives->size()), collectives_(std::move(collectives)) {}

SharedMemoryBackend::Work SharedMemoryBackend::ended(c10d::OpType type, Tensors tensors) const {
  auto work = c10::make_intrusive<TensorsWork>(rank_, type, std::move(tensors));
  work->end(nullptr);
  return work;
}

SharedMemoryBackend::Work SharedMemoryBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& tensor : tensors) {
    const ContiguousTensor values(tensor);
    const std::string what = call_text(format("broadcast from rank {}", options.rootRank).c_str(), tensor);
    collectives_->broadcast(bytes_of(values.get()), static_cast<int>(options.rootRank), what.c_str());
    values.write_back();
  }
  return ended(c10d::OpType::BROADCAST, tensors);
}

template <class Reduce>
void SharedMemoryBackend::observed(const Reduce& reduce) {
  const double arrived = observer_ ? steady_seconds() : 0;
  reduce();
  if (observer_) observer_(arrived, steady_seconds());
}

SharedMemoryBackend::Work SharedMemoryBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::NoGradGuard no_grad;
  observed([&] {
    for (at::Tensor& tensor : tensors) {
      if (tensor.is_sparse()) {
        all_reduce_sparse(tensor, options.reduceOp);
      } else {
        all_reduce_dense(tensor, options.reduceOp);
      }
    }
  });
  return ended(c10d::OpType::ALLREDUCE, tensors);
}

void SharedMemoryBackend::all_reduce_dense(at::Tensor& tensor, const c10d::ReduceOp& op) {
  const ContiguousTensor values(tensor);
  const std::string what = call_text("all_reduce", op, tensor);
  collectives_->all_reduce(values_of(values.get(), op), what.c_str());
  values.write_back();
}

void SharedMemoryBackend::all_reduce_sparse(at::Tensor& tensor, const c10d::ReduceOp& op) {
  if (op != c10d::ReduceOp::SUM) throw MisuseError("sparse tensors can only be summed over ranks");
  const at::Tensor mine = tensor.coalesce();
  const at::Tensor count = torch::tensor({mine._nnz()}, torch::kLong);
  std::int64_t most = 0;
  std::vector<std::int64_t> counts;
  for (const at::Tensor& other : all_gather(count)) {
    counts.push_back(other.item<std::int64_t>());
    most = std::max(most, counts.back());
  }
  // As long on every rank.
  const auto padded = [&](const at::Tensor& values, std::int64_t dimension) {
    std::vector<std::int64_t> sizes = values.sizes().vec();
    sizes[static_cast<std::size_t>(dimension)] = most;
    at::Tensor all = torch::zeros(sizes, values.options());
    all.narrow(dimension, 0, values.size(dimension)).copy_(values);
    return all;
  };
  const Tensors indices = all_gather(padded(mine.indices(), 1));
  const Tensors values = all_gather(padded(mine.values(), 0));
  Tensors all_indices;
  Tensors all_values;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    all_indices.push_back(indices[rank].narrow(1, 0, counts[rank]));
    all_values.push_back(values[rank].narrow(0, 0, counts[rank]));
  }
  const at::Tensor sum =
      torch::sparse_coo_tensor(torch::cat(all_indices, 1), torch::cat(all_values, 0), mine.sizes(), mine.options());
  tensor.copy_(sum.coalesce());
}

SharedMemoryBackend::Tensors SharedMemoryBackend::all_gather(const at::Tensor& mine) {
  Tensors all;
  for (int rank = 0; rank < size_; ++rank) all.push_back(torch::empty_like(mine, mine.options(), at::MemoryFormat::Contiguous));
  all_gather(mine, all);
  return all;
}

void SharedMemoryBackend::all_gather(const at::Tensor& mine, Tensors& all) {
  const at::Tensor own = ContiguousTensor(mine).get();
  if (static_cast<int>(all.size()) != size_)
    throw MisuseError(format("all_gather: {} tensors for {} ranks", all.size(), size_));
  std::vector<ContiguousTensor> targets;
  std::vector<std::byte*> places;
  for (at::Tensor& tensor : all) {
    if (tensor.nbytes() != own.nbytes()) throw MisuseError("all_gather: all tensors must be of one size");
    targets.emplace_back(tensor);
    places.push_back(bytes_of(targets.back().get()).data());
  }
  collectives_->all_gather(bytes_of(own), places, call_text("all_gather", own).c_str());
  for (const ContiguousTensor& target : targets) target.write_back();
}

SharedMemoryBackend::Work SharedMemoryBackend::allgather(std::vector<Tensors>& all, Tensors& mine,
                                                         const c10d::AllgatherOptions&) {
  const at::NoGradGuard no_grad;
  Tensors results;
  for (std::size_t index = 0; index < mine.size(); ++index) {
    all_gather(mine[index], all[index]);
    results.insert(results.end(), all[index].begin(), all[index].end());
  }
  return ended(c10d::OpType::ALLGATHER, std::move(results));
}

SharedMemoryBackend::Work SharedMemoryBackend::reduce_scatter(Tensors& mine, std::vector<Tensors>& all,
                                                              const c10d::ReduceScatterOptions& options) {
  const at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < mine.size(); ++index) {
    const ContiguousTensor result(mine[index]);
    Tensors parts;
    std::vector<const std::byte*> places;
    for (const at::Tensor& part : all[index]) {
      if (part.nbytes() != result.get().nbytes()) throw MisuseError("reduce_scatter: all parts must be of one size");
      parts.push_back(part.contiguous());
      places.push_back(bytes_of(parts.back()).data());
    }
    const std::string what = call_text("reduce_scatter", options.reduceOp, result.get());
    collectives_->reduce_scatter(places, values_of(result.get(), options.reduceOp), what.c_str());
    result.write_back();
  }
  return ended(c10d::OpType::REDUCE_SCATTER, mine);
}

std::unique_ptr<SharedMemoryBackend::Buckets> SharedMemoryBackend::take_buckets() {
  if (std::exchange(has_buckets_, true)) return nullptr;
  return std::make_unique<Buckets>(c10::intrusive_ptr<SharedMemoryBackend>::reclaim_copy(this));
}

at::Tensor SharedMemoryBackend::Buckets::average(std::size_t index, const at::Tensor& gradients, bool are_seen) {
  const bool is_whole_memory =
      gradients.layout() == at::kStrided && gradients.is_cpu() && gradients.nbytes() == gradients.storage().nbytes();
  const std::size_t window_bytes = std::min(kMostBytesOfWindow, backend_->collectives_->window().size());
  if (is_whole_memory && gradients.nbytes() > window_bytes) {
    if (const SharedParts* const parts = parts_of(index, gradients)) {
      const auto op = c10d::ReduceOp::AVG;
      const std::string what = call_text("all_reduce in buckets", op, gradients);
      backend_->observed([&] { backend_->collectives_->all_reduce_parts(*parts, values_of(gradients, op), what.c_str()); });
      return gradients;
    }
  } else if (is_whole_memory && index == 0 && !are_seen) {
    return average_in_window(gradients);
  }
  Tensors tensors = {gradients};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::AVG;
  backend_->allreduce(tensors, options);
  return gradients;
}

const SharedParts* SharedMemoryBackend::Buckets::parts_of(std::size_t index, const at::Tensor& gradients) {
  if (index >= buckets_.size()) buckets_.resize(index + 1);
  Bucket& bucket = buckets_[index];
  SharedMemoryCollectives& collectives = *backend_->collectives_;
  if (bucket.bytes != gradients.nbytes()) {
    bucket = {gradients.nbytes(), nullptr};
    bucket.parts = collectives.share_parts(bucket.bytes, call_text("memory for a bucket", gradients).c_str());
  }
  if (!bucket.parts) return nullptr;
  std::byte* const mine = bucket.parts->of(collectives.rank());
  if (gradients.const_data_ptr() != mine) {
    std::memcpy(mine, gradients.const_data_ptr(), gradients.nbytes());
    // Gradients may be views of the bucket, and live as long as their parameters.
    auto* const owner = new std::shared_ptr<const SharedParts>(bucket.parts);
    const auto release = [](void* context) { delete static_cast<std::shared_ptr<const SharedParts>*>(context); };
    gradients.storage().set_data_ptr_noswap(at::DataPtr(mine, owner, release, at::kCPU));
  }
  return bucket.parts.get();
}

at::Tensor SharedMemoryBackend::Buckets::average_in_window(const at::Tensor& gradients) {
  SharedMemoryCollectives& collectives = *backend_->collectives_;
  const auto op = c10d::ReduceOp::AVG;
  if (gradients.mutable_data_ptr() != collectives.window().data()) {
    std::memcpy(collectives.window().data(), gradients.const_data_ptr(), gradients.nbytes());
    average_ = at::empty_like(gradients);
  }
  const std::string what = call_text("all_reduce in windows", op, gradients);
  backend_->observed([&] { collectives.all_reduce_window(values_of(average_, op), what.c_str()); });
  gradients.storage().set_data_ptr_noswap(at::DataPtr(collectives.window().data(), at::kCPU));
  return average_;
}

}  // namespace levin
