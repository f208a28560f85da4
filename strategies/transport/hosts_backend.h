#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "levin/strategies/transport/hosts_reduction.h"

namespace levin {

/// Tensors on the CPU between ranks on several hosts, with several ranks on each: an all-reduce of one dense tensor goes the
/// way of HostsReduction, and everything else over a backend that knows no hosts. A thread makes the all-reduces in their
/// order, so that calls come back at once, and a work and its future end when its all-reduce has; what ends one of them ends
/// all that follow. Ranks: all, in the same order of calls of either kind.
class HostsBackend final : public c10d::Backend {
 public:
  /// `flat`: among all ranks. Its errors are typed (see GlooBackend).
  HostsBackend(HostsReduction::Links links, c10::intrusive_ptr<c10d::Backend> flat);
  /// Ends all-reduces that are under way with a DesyncError.
  ~HostsBackend() override;

  const std::string getBackendName() const override { return "hosts"; }
  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& all, std::vector<at::Tensor>& mine,
                                           const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& received, at::Tensor& sent,
                                               std::vector<std::int64_t>& received_sizes, std::vector<std::int64_t>& sent_sizes,
                                               const c10d::AllToAllOptions& options) override;
  c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor>& mine, std::vector<std::vector<at::Tensor>>& all,
                                                const c10d::ReduceScatterOptions& options) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  class CallWork;
  struct Call;
  void make_calls();
  /// Nothing when the backend is to end.
  std::shared_ptr<Call> next_call();
  void make(Call& call);

  HostsReduction reduction_;
  c10::intrusive_ptr<c10d::Backend> flat_;
  std::exception_ptr broken_;  ///< the thread alone uses it
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Call>> calls_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace levin
