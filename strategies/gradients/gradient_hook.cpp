#include "levin/strategies/gradients/gradient_hook.h"

#include <torch/types.h>

#include <torch/csrc/distributed/c10d/comm.hpp>

#include <optional>
#include <utility>

#include "levin/strategies/gradients/power_sgd.h"
#include "levin/strategies/transport/bucket_vote_channel.h"
#include "levin/strategies/transport/shared_memory_backend.h"

namespace levin {

namespace {

using Future = c10::ivalue::Future;

c10::intrusive_ptr<Future> completed(const at::Tensor& gradients) {
  auto future = c10::make_intrusive<Future>(c10::TensorType::get());
  future->markCompleted(c10::IValue(gradients));
  return future;
}

class GradientHook : public c10d::CommHookInterface {
 public:
  GradientHook(c10::intrusive_ptr<c10d::ProcessGroup> group, BucketVoteChannel* votes)
      : group_(std::move(group)), votes_(votes) {}
  at::Tensor parseHookResult(const c10::IValue& result) override { return c10d::detail::parseCppCommHookResult(result); }

 protected:
  int ranks() const { return group_->getSize(); }
  bool carries_votes(const c10d::GradBucket& bucket) const { return votes_ != nullptr && bucket.getIndex() == 0; }
  /// The world's, which outlives every reduction.
  BucketVoteChannel* votes() const { return votes_; }
  c10::intrusive_ptr<c10d::Work> all_reduce(const at::Tensor& tensor,
                                            c10d::ReduceOp::RedOpType op = c10d::ReduceOp::SUM) const {
    std::vector<at::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    return group_->allreduce(tensors, options);
  }

 private:
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  BucketVoteChannel* votes_;
};

/// Has ranks that share memory average buckets where they lie, if there is room.
class AverageHook final : public GradientHook {
 public:
  AverageHook(c10::intrusive_ptr<c10d::ProcessGroup> group, std::unique_ptr<SharedMemoryBackend::Buckets> buckets,
              bool buckets_are_gradients)
      : GradientHook(std::move(group), nullptr), buckets_(std::move(buckets)), buckets_are_gradients_(buckets_are_gradients) {}

  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor gradients = bucket.getBufferRef();
    if (!buckets_) return all_reduce(gradients, c10d::ReduceOp::AVG)->getFuture();
    return completed(buckets_->average(bucket.getIndex(), gradients, buckets_are_gradients_));
  }

 private:
  std::unique_ptr<SharedMemoryBackend::Buckets> buckets_;
  bool buckets_are_gradients_;
};

/// Sums buckets over ranks and divides them by their number, as LibTorch does by itself, in a type of fewer bits if one is
/// given.
class MeanHook final : public GradientHook {
 public:
  MeanHook(c10::intrusive_ptr<c10d::ProcessGroup> group, BucketVoteChannel* votes, std::optional<at::ScalarType> type)
      : GradientHook(std::move(group), votes), type_(type) {}

  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    const at::Tensor buffer = bucket.getBufferRef();
    // Divided first, as overflow is nearer than underflow.
    const at::Tensor gradients = (type_ ? buffer.to(*type_) : buffer).div_(ranks());
    const bool carries = carries_votes(bucket);
    const auto done = all_reduce(carries ? torch::cat({gradients, votes()->elements(gradients)}) : gradients)->getFuture();
    if (!carries && !type_) return done;
    // An error in the backward pass ends this hook, with its reducer, while buckets travel: what comes then has no `this`.
    const auto take = [buffer, carries, votes = votes(), is_compressed = type_.has_value()](Future& future) {
      at::Tensor sum = c10d::detail::parseCppCommHookResult(future.value());
      const std::int64_t size = buffer.numel();
      if (carries) {
        votes->take(sum.narrow(0, size, sum.numel() - size));
        sum = sum.narrow(0, 0, size);
      }
      return c10::IValue(is_compressed ? buffer.copy_(sum) : sum);
    };
    return done->then(take, c10::TensorType::get());
  }

 private:
  std::optional<at::ScalarType> type_;
};

/// Waits for each exchange in the thread of the backward pass: one that waited where another ends would keep Gloo's threads
/// from ending it.
class PowerSgdHook final : public GradientHook {
 public:
  PowerSgdHook(c10::intrusive_ptr<c10d::ProcessGroup> group, BucketVoteChannel* votes, PowerSgd& power_sgd,
               std::function<void(bool)> on_wait)
      : GradientHook(std::move(group), votes), power_sgd_(power_sgd), on_wait_(std::move(on_wait)) {}

  c10::intrusive_ptr<Future> runHook(c10d::GradBucket& bucket) override {
    const auto sum = [this](at::Tensor& tensor) {
      if (on_wait_) on_wait_(true);
      all_reduce(tensor)->wait();
      if (on_wait_) on_wait_(false);
    };
    const bool carries = carries_votes(bucket);
    const at::Tensor elements = carries ? votes()->elements(bucket.getBufferRef()) : at::Tensor();
    const at::Tensor summed = power_sgd_.reduce(bucket, ranks(), sum, elements);
    if (carries) votes()->take(summed);
    return completed(bucket.getBufferRef());
  }

 private:
  PowerSgd& power_sgd_;
  std::function<void(bool)> on_wait_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_gradient_hook(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                            const GradientHookOptions& options) {
  switch (options.form) {
    case CommHook::kFp16Compress:
      return std::make_unique<MeanHook>(group, options.votes, at::kHalf);
    case CommHook::kBf16Compress:
      return std::make_unique<MeanHook>(group, options.votes, at::kBFloat16);
    case CommHook::kPowerSgd:
      return std::make_unique<PowerSgdHook>(group, options.votes, *options.power_sgd, options.on_wait);
    case CommHook::kNone:
      break;
  }
  if (options.votes != nullptr) return std::make_unique<MeanHook>(group, options.votes, std::nullopt);
  if (options.shared_memory == nullptr) return nullptr;
  return std::make_unique<AverageHook>(group, options.shared_memory->take_buckets(), options.buckets_are_gradients);
}

}  // namespace levin
