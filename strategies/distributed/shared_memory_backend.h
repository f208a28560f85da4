#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <memory>
#include <string>
#include <vector>

#include "levin/core/strategy.h"
#include "levin/strategies/processes/shared_memory_collectives.h"

namespace levin {

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

  /// Keeps gradients of a bucket where the other ranks read them, so that averaging them begins without a copy. There is one
  /// at a time.
  class Window {
   public:
    explicit Window(c10::intrusive_ptr<SharedMemoryBackend> backend) : backend_(std::move(backend)) {}
    ~Window() { backend_->window_is_taken_ = false; }
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    /// Whether `gradients`, the whole memory of a bucket, have room.
    bool fits(const at::Tensor& gradients) const;
    /// Ranks: all. The mean over ranks, in memory that the next call writes to. The memory of `gradients` is in the window from
    /// then on, with any content.
    at::Tensor average(const at::Tensor& gradients);

   private:
    c10::intrusive_ptr<SharedMemoryBackend> backend_;
    at::Tensor average_;
  };

  /// Ranks: all, in the same order of calls. Null when there is one already.
  std::unique_ptr<Window> take_window();

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
  bool window_is_taken_ = false;
};

}  // namespace levin
