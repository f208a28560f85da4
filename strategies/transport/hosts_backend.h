#pragma once

#include <ATen/core/Tensor.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/worker.h"
#include "levin/strategies/host/shared_memory_collectives.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/transport/gloo.h"

namespace levin {

/// Hosts with the same number of ranks: host h has ranks [h * ranks_per_host, (h + 1) * ranks_per_host).
struct HostLayout {
  int hosts = 1;
  int ranks_per_host = 1;

  int host_of(int rank) const { return rank / ranks_per_host; }
  /// Among the ranks of its host, counted from 0.
  int place_of(int rank) const { return rank % ranks_per_host; }
  int first_rank_of(int host) const { return host * ranks_per_host; }
  bool operator==(const HostLayout&) const = default;
};

/// From each rank's host name. Unset if hosts have different numbers of ranks, or a host's ranks are not consecutive.
std::optional<HostLayout> host_layout(const std::vector<std::string>& host_of_rank);

/// Exchanges CPU tensors between ranks on several hosts, with the same number of ranks on each. An all-reduce of one dense
/// tensor has two levels: each host combines values through shared memory; each rank exchanges one share of the result with the
/// ranks of its local rank on other hosts, and the host reassembles the shares. Gloo only moves bytes. Values are combined in
/// the order of ranks within a host, then in the order of hosts: results are the same bits on every rank, and in every run. An
/// average is that of the hosts' averages. All else uses Gloo among all ranks.
///
/// A thread makes the all-reduces in their order, so that calls return at once, and a work and its future end with its
/// all-reduce; an error in one ends all later ones. Errors are those of SharedMemoryCollectives, and ConnectionLost. Ranks:
/// all, in the same order of calls of either kind.
class HostsBackend final : public GlooBackend {
 public:
  struct Links {
    /// The ranks of this host, whose waits are WaitingThread::kHelper.
    std::unique_ptr<SharedMemoryCollectives> within;
    /// The ranks with this index on all hosts, in the order of hosts. Its errors are typed (see GlooBackend).
    c10::intrusive_ptr<c10d::Backend> between;
    std::shared_ptr<StatusBoard> board;
  };
  /// `flat`: among all ranks.
  HostsBackend(Links links, const GlooBackend& flat);
  /// Ends running all-reduces with a DesyncError.
  ~HostsBackend() override;

  const std::string getBackendName() const override { return "hosts"; }
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;

 private:
  using Values = SharedMemoryCollectives::Values;

  // What the worker does.
  int hosts() const { return links_.between->getSize(); }
  int host() const { return links_.between->getRank(); }
  void reduce_by_host(const Values& values, const std::string& what);
  void reduce_by_shares(const Values& values, const char* what);
  /// Combines share_ with the other hosts'; returns the result's memory.
  std::span<std::byte> combine_shares(std::size_t bytes, const Values& values);
  /// The same where each host combines a piece of it.
  std::span<std::byte> combine_by_pieces(std::size_t bytes, const Values& values);
  /// Sends the first bytes of share_ to every other host, and receives as many from each: by_host_.
  void exchange_with_hosts(std::size_t bytes);
  /// Makes a call between hosts, and waits until it is done.
  void finish(const c10::intrusive_ptr<c10d::Work>& work);

  Links links_;
  at::Tensor share_;     ///< what this rank sends to other hosts
  at::Tensor received_;  ///< from them
  at::Tensor combined_;
  std::vector<const std::byte*> by_host_;
  bool is_abandoned_ = false;  ///< a call between hosts was under way when this rank gave up
  std::exception_ptr broken_;  ///< the worker's: what has ended an all-reduce, and ends those that follow
  std::atomic<bool> ends_ = false;
  std::optional<Worker> worker_{std::in_place};
};

}  // namespace levin
