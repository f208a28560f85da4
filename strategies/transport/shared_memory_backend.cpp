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

/// Buckets up to this size are averaged in a window, in which two ranks wait for each other once; larger ones where they lie,
/// with two waits, but fewer reads and writes.
constexpr std::size_t kMostBytesOfWindow = std::size_t{512} << 10;

SharedMemoryCollectives::Values values_of(const at::Tensor& contiguous, const c10d::ReduceOp& op) {
  return {bytes_of(contiguous), static_cast<std::size_t>(contiguous.element_size()),
          combine_values(op, contiguous.scalar_type())};
}

c10::intrusive_ptr<c10d::Work> ended(const std::vector<at::Tensor>& tensors) {
  auto future = FutureWork::make_future();
  future->markCompleted(tensors);
  return c10::make_intrusive<FutureWork>(std::move(future));
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

std::string call_text(const char* call, const at::Tensor& tensor) {
  return format("{} of {}", call, c10::toString(tensor.scalar_type()));
}

std::string call_text(const char* call, const c10d::ReduceOp& op, const at::Tensor& tensor) {
  return format("{}({}) of {}", call, reduce_op_name(op), c10::toString(tensor.scalar_type()));
}

SharedMemoryBackend::SharedMemoryBackend(std::unique_ptr<SharedMemoryCollectives> collectives)
    : Backend(collectives->rank(), collectives->size()), collectives_(std::move(collectives)) {}

SharedMemoryBackend::Work SharedMemoryBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::NoGradGuard no_grad;
  for (at::Tensor& tensor : tensors) {
    const ContiguousTensor values(tensor);
    const std::string what = call_text(format("broadcast from rank {}", options.rootRank).c_str(), tensor);
    collectives_->broadcast(bytes_of(values.get()), static_cast<int>(options.rootRank), what.c_str());
    values.write_back();
  }
  return ended(tensors);
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
    for (const at::Tensor& tensor : tensors) all_reduce(tensor, options.reduceOp);
  });
  return ended(tensors);
}

void SharedMemoryBackend::all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op) {
  const ContiguousTensor values(tensor);
  const std::string what = call_text("all_reduce", op, tensor);
  collectives_->all_reduce(values_of(values.get(), op), what.c_str());
  values.write_back();
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
  return ended(results);
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
