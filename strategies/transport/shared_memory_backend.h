#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "levin/core/strategy.h"
#include "levin/strategies/host/shared_memory_collectives.h"
#include "levin/strategies/transport/combine_values.h"

namespace levin {

/// Throws MisuseError for a tensor that shared memory cannot take from the device on which it is.
void check_on_cpu(const at::Tensor& tensor);

/// A tensor on the CPU whose numbers lie one after the other: the given one, or a copy that takes its place at the end. Throws
/// MisuseError as check_on_cpu() does.
class ContiguousTensor {
 public:
  explicit ContiguousTensor(const at::Tensor& tensor);
  const at::Tensor& get() const { return contiguous_; }
  /// What get() holds becomes the given tensor's.
  void write_back() const;

 private:
  at::Tensor tensor_;
  at::Tensor contiguous_;
};

/// The memory of a tensor whose numbers lie one after the other.
std::span<std::byte> bytes_of(const at::Tensor& contiguous);
/// Nothing for operations that levin does not make by itself.
std::optional<CombineOp> find_combine_op(const c10d::ReduceOp& op);
/// The same. Throws MisuseError for others.
CombineOp combine_op(const c10d::ReduceOp& op);
/// "broadcast of Float": a call, as others read it.
std::string call_text(const char* call, const at::Tensor& tensor);
/// "all_reduce(sum) of Float"
std::string call_text(const char* call, CombineOp op, const at::Tensor& tensor);

/// Tensors on the CPU between the ranks of one host, through shared memory. A call comes back when it is done: its work has
/// ended. Sparse tensors can be all-reduced. Errors are those of SharedMemoryCollectives, and MisuseError for tensors on other
/// devices, and operations and types that combine_values() does not know.
class SharedMemoryBackend final : public c10d::Backend {
 public:
  explicit SharedMemoryBackend(std::unique_ptr<SharedMemoryCollectives> collectives);

  /// `observer`: told of every all-reduce from here on; may be null.
  void observe(const WaitObserver& observer) { observer_ = observer; }

  const std::string getBackendName() const override { return "shared_memory"; }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& all, std::vector<at::Tensor>& mine,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& mine, std::vector<std::vector<at::Tensor>>& all,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

  /// Averages buckets of gradients, and keeps them where the other ranks read them, so that nothing is copied for it. There is
  /// one at a time.
  class Buckets {
   public:
    explicit Buckets(c10::intrusive_ptr<SharedMemoryBackend> backend) : backend_(std::move(backend)) {}
    ~Buckets() { backend_->has_buckets_ = false; }
    Buckets(const Buckets&) = delete;
    Buckets& operator=(const Buckets&) = delete;

    /// `gradients`: the whole memory of bucket number `index`, or whatever else can be all-reduced. `are_seen`: others have
    /// views of them, who find the mean there. Ranks: all, alike. The mean over ranks: `gradients` themselves, or, unless they
    /// are seen, memory that the next call for this bucket writes to, and `gradients` then have any content.
    at::Tensor average(std::size_t index, const at::Tensor& gradients, bool are_seen);

   private:
    struct Bucket {
      std::size_t bytes = 0;
      std::shared_ptr<const SharedParts> parts;  ///< null: there was no memory
    };
    at::Tensor average_in_window(const at::Tensor& gradients);
    /// Null when there is no memory for them.
    const SharedParts* parts_of(std::size_t index, const at::Tensor& gradients);

    c10::intrusive_ptr<SharedMemoryBackend> backend_;
    at::Tensor average_;  ///< of the bucket in the window
    std::vector<Bucket> buckets_;
  };

  /// Ranks: all, in the same order of calls. Null when there is one already.
  std::unique_ptr<Buckets> take_buckets();

 private:
  void all_reduce_dense(at::Tensor& tensor, const c10d::ReduceOp& op);
  void all_reduce_sparse(at::Tensor& tensor, const c10d::ReduceOp& op);
  std::vector<at::Tensor> all_gather(const at::Tensor& mine);
  void all_gather(const at::Tensor& mine, std::vector<at::Tensor>& all);

  /// Makes an all-reduce of which the observer is told.
  template <class Reduce>
  void observed(const Reduce& reduce);

  std::unique_ptr<SharedMemoryCollectives> collectives_;
  WaitObserver observer_;
  bool has_buckets_ = false;
};

}  // namespace levin
