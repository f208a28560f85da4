#pragma once

#include <c10/core/ScalarType.h>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "levin/core/strategy.h"
#include "levin/strategies/host/shared_memory_collectives.h"

namespace levin {

/// The function that combines values of a type: NaN wins in minimum and maximum, too. Values of 16 bits are summed in 32. Null
/// for other operations and types, and the average of integers, which levin does not combine itself.
SharedMemoryCollectives::Combine find_combine(const c10d::ReduceOp& op, c10::ScalarType type);
/// The same. Throws MisuseError instead of returning null.
SharedMemoryCollectives::Combine combine_values(const c10d::ReduceOp& op, c10::ScalarType type);
/// "sum"
const char* reduce_op_name(const c10d::ReduceOp& op);

/// A contiguous tensor on the CPU: the given one, or a copy that is written back at the end. Throws MisuseError for one on
/// another device.
class ContiguousTensor {
 public:
  explicit ContiguousTensor(const at::Tensor& tensor);
  const at::Tensor& get() const { return contiguous_; }
  /// Writes get() back to the given tensor.
  void write_back() const;

 private:
  at::Tensor tensor_;
  at::Tensor contiguous_;
};

/// The memory of a contiguous tensor.
std::span<std::byte> bytes_of(const at::Tensor& contiguous);
/// "broadcast of Float": the name of a call for others.
std::string call_text(const char* call, const at::Tensor& tensor);
/// "all_reduce(sum) of Float"
std::string call_text(const char* call, const c10d::ReduceOp& op, const at::Tensor& tensor);

/// A call that ends with its future, well or with an error.
class FutureWork final : public c10d::Work {
 public:
  using Future = c10::intrusive_ptr<c10::ivalue::Future>;
  explicit FutureWork(Future future) : future_(std::move(future)) {}
  /// A future of tensors, as of c10d's calls. `devices`: theirs, unless on the CPU.
  static Future make_future(std::vector<c10::Device> devices = {}) {
    return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
  }
  bool isCompleted() override { return future_->completed(); }
  bool isSuccess() const override { return future_->hasValue(); }
  bool wait(std::chrono::milliseconds) override {
    future_->waitAndThrow();
    return true;
  }
  Future getFuture() override { return future_; }

 private:
  Future future_;
};

/// Exchanges CPU tensors between the ranks of one host, through shared memory. A call returns when it is done: its work has
/// ended. Errors are those of SharedMemoryCollectives, and MisuseError for tensors on other devices, and operations and types
/// that combine_values() does not know.
class SharedMemoryBackend final : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  explicit SharedMemoryBackend(std::unique_ptr<SharedMemoryCollectives> collectives);

  /// `observer`: called for every later all-reduce; may be null.
  void observe(const WaitObserver& observer) { observer_ = observer; }

  const std::string getBackendName() const override { return "shared_memory"; }
  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  Work allgather(std::vector<Tensors>& all, Tensors& mine, const c10d::AllgatherOptions& options) override;

  /// Averages buckets of gradients, and stores them where the other ranks read them, which saves copies. There is one at a
  /// time.
  class Buckets {
   public:
    explicit Buckets(c10::intrusive_ptr<SharedMemoryBackend> backend) : backend_(std::move(backend)) {}
    ~Buckets() { backend_->has_buckets_ = false; }
    Buckets(const Buckets&) = delete;
    Buckets& operator=(const Buckets&) = delete;

    /// `gradients`: the whole memory of bucket number `index`, or another tensor to all-reduce. `are_seen`: others have views
    /// of them, and expect the mean there. Ranks: all, with equal arguments. Returns the mean over ranks: `gradients`
    /// themselves, or, unless they are seen, memory that the next call for this bucket overwrites; the content of `gradients`
    /// is then undefined.
    at::Tensor average(std::size_t index, const at::Tensor& gradients, bool are_seen);

   private:
    struct Bucket {
      std::size_t bytes = 0;
      std::shared_ptr<const SharedParts> parts;  ///< null: memory was short
    };
    at::Tensor average_in_window(const at::Tensor& gradients);
    /// Null when memory is short.
    const SharedParts* parts_of(std::size_t index, const at::Tensor& gradients);

    c10::intrusive_ptr<SharedMemoryBackend> backend_;
    at::Tensor average_;  ///< of the bucket in the window
    std::vector<Bucket> buckets_;
  };

  /// Ranks: all, in the same order of calls. Null when there is one already.
  std::unique_ptr<Buckets> take_buckets();

 private:
  void all_reduce(const at::Tensor& tensor, const c10d::ReduceOp& op);
  void all_gather(const at::Tensor& mine, Tensors& all);

  /// Makes an all-reduce and calls the observer.
  template <class Reduce>
  void observed(const Reduce& reduce);

  std::unique_ptr<SharedMemoryCollectives> collectives_;
  WaitObserver observer_;
  bool has_buckets_ = false;
};

}  // namespace levin
