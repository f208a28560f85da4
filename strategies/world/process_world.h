#pragma once

#include <ATen/core/Tensor.h>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/strategies/host/failure_watch.h"
#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/host/status_board.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/transport/hosts_backend.h"
#include "levin/strategies/transport/shared_memory_backend.h"
#include "levin/strategies/world/join_ranks.h"
#include "levin/strategies/world/rank_groups.h"
#include "levin/strategies/world/rendezvous.h"

namespace levin {

class Accelerator;
class SharedMemoryStatusBoard;

/// Up to this size a user's tensor is sent over the control group, which answers within microseconds.
inline constexpr std::size_t kSmallTensorBytes = 32 * 1024;

/// This process's membership in the run: all its connections to other ranks. A process joins once, and stays a member for all
/// its strategies and Trainers, until it ends.
///
/// In a user's collective, ranks first exchange its description over the control group: operation, call site, shape and type
/// must agree, or every rank gets the same DesyncError. Only then data moves: small tensors over the control group, large ones
/// over the process group.
class ProcessWorld final : public JobRankGroup {
 public:
  struct Options {
    ControlTransport control_group = ControlTransport::kAuto;
    GradientTransport gradients = GradientTransport::kAuto;
    std::shared_ptr<const Accelerator> own_backend;  ///< gradients travel over this accelerator's backend; null: over Gloo
    at::DeviceType device_type = at::kCPU;           ///< where gradients are
    Timeouts timeouts;
    double connect_timeout_seconds = 300;  ///< to find one another; at most the limit of a wait
  };

  /// Ranks: all. The membership of this process, joined on the first call; of later calls' options only the first device other
  /// than the CPU counts. Throws ConfigError, DesyncError or IoError when the ranks cannot connect.
  static std::shared_ptr<ProcessWorld> join(const ClusterEnvironment& environment, const Options& options);

  /// That membership. Throws MisuseError before join().
  static std::shared_ptr<ProcessWorld> current();
  static bool is_joined() { return membership() != nullptr; }

  int rank() const override { return environment_.rank; }
  int world_size() const override { return environment_.world_size; }
  int local_rank() const override { return environment_.local_rank; }
  int node_rank() const override { return environment_.node_rank; }
  int ranks_of_host() const override { return host_cores_.ranks; }
  int cores_of_host() const override { return host_cores_.cores; }
  /// "metrics over shared memory, gradients over shared memory"
  std::string description() const override { return world_size() == 1 ? "" : transports_; }
  int restarts() const override { return environment_.restarts; }
  std::string restart_state() const override;
  bool store_restart_state(const std::string& text) override;
  ControlGroup& control_group() override { return *control_group_; }
  VoteChannel& vote_channel() override { return *gathered_votes_; }
  at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where) override;
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) override;
  at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) override;
  void barrier(const std::string& what, SourceLocation where) override;
  void post_whereabouts(const Whereabouts& whereabouts) override;
  void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept override;
  void post_saving(bool saving) noexcept override { board_->post_saving(saving); }
  std::optional<std::string> failure_elsewhere() const override;
  std::optional<int> lost_rank() const override;
  void end_entry_point() noexcept override;

  /// The votes' channel: with reductions of gradients, or in shared memory.
  VoteChannel& gradient_votes() { return *vote_channel_; }
  /// Set when votes travel in the buckets of gradients.
  BucketVoteChannel* bucket_votes() { return bucket_votes_; }
  StatusBoard& board() { return *board_; }
  const HostCores& host_cores() const { return host_cores_; }
  /// Ranks: all. Another group on the CPU, over Gloo, for comparison.
  c10::intrusive_ptr<c10d::ProcessGroup> make_gloo_group(const std::string& name) const;
  /// "shared memory", "gloo", "shared memory within hosts and gloo between", "nccl": the transport of gradients on the rank's
  /// device.
  const std::string& gradient_transport() const { return gradient_transport_; }
  /// The transport of gradients, if it is shared memory, else null.
  SharedMemoryBackend* shared_gradients() const { return shared_gradients_.get(); }
  /// Called once, when the current entry point ends. Must not throw.
  void when_entry_point_ends(std::function<void()> work) { at_end_.push_back(std::move(work)); }
  /// Gradients, parameters and large tensors travel here.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return process_group_; }

 private:
  ProcessWorld(const ClusterEnvironment& environment, const Options& options);
  static std::shared_ptr<ProcessWorld>& membership();
  /// Throws DesyncError on every rank when they call `what` with different tensors or arguments.
  void agree(const at::Tensor& tensor, const std::string& what, const std::string& detail = "");
  at::Tensor gather(const at::Tensor& tensor, const std::string& what);
  /// The launcher's memory belongs to this host's ranks: to all ranks, or, between hosts, only for the launcher to see them.
  void join_launcher(const std::shared_ptr<RunSegment>& segment);
  void meet_in_segment(const std::shared_ptr<RunSegment>& segment);
  void join_control_group();
  void learn_cores();
  void join_process_group();
  c10::intrusive_ptr<c10d::Backend> make_gradient_backend();
  void join_over_network();
  c10::intrusive_ptr<GlooBackend> make_gloo(const std::string& name) const;
  /// Also supports tensors on such a device. Ranks: all.
  void add_device(const Options& options);
  /// Called: when the process ends by exit().
  void end_own_backend() noexcept;
  /// Among the ranks of a segment. Null on all ranks, with the reason in `failure`, if one cannot share that much memory.
  std::unique_ptr<SharedMemoryCollectives> share_collectives(const std::shared_ptr<RunSegment>& segment, WaitingThread thread,
                                                             std::string& failure);
  /// Null, with a warning, where the ranks of one host cannot share that much memory.
  c10::intrusive_ptr<SharedMemoryBackend> make_shared_memory_backend();
  /// Null, on all ranks, where hosts differ or have one rank each, and, with a warning, where one cannot share that much
  /// memory.
  c10::intrusive_ptr<c10d::Backend> make_hosts_backend(const GlooBackend& flat);

  ClusterEnvironment environment_;
  Options options_;
  bool one_host_ = false;
  JoinedStore joined_;
  std::shared_ptr<RunSegment> launched_;                 ///< made by this host's launcher
  std::shared_ptr<SharedMemoryStatusBoard> host_board_;  ///< the same, for the launcher
  std::optional<HostLayout> host_layout_;                ///< if ranks have joined through the store
  std::shared_ptr<RunSegment> segment_;                  ///< if all ranks share one
  RankTimeouts times_;
  std::shared_ptr<StatusBoard> board_;
  std::unique_ptr<ControlGroup> control_group_;
  std::unique_ptr<GatheredVoteChannel> gathered_votes_;
  std::unique_ptr<VoteChannel> vote_channel_;
  BucketVoteChannel* bucket_votes_ = nullptr;  ///< vote_channel_, when it is one
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  c10::intrusive_ptr<c10d::Backend> cpu_backend_;
  bool has_gloo_ = false;                                     ///< cpu_backend_ is Gloo's
  bool has_device_ = false;                                   ///< tensors on another device than the CPU are supported
  c10::intrusive_ptr<c10d::Backend> own_backend_;             ///< the accelerator's; null: it has none
  c10::intrusive_ptr<SharedMemoryBackend> shared_gradients_;  ///< null: not over shared memory
  std::unique_ptr<FailureWatch> watch_;
  HostCores host_cores_;
  std::string transports_;
  std::string metrics_transport_;  ///< the first part of it
  std::string gradient_transport_;
  std::vector<std::function<void()>> at_end_;  ///< of the entry point
};

}  // namespace levin
