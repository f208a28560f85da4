#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <memory>
#include <optional>
#include <string>

#include "levin/core/protocol/control_group.h"
#include "levin/core/strategy.h"
#include "levin/strategies/failure/status_board.h"
#include "levin/strategies/host/run_segment.h"
#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/transport/hosts_backend.h"
#include "levin/strategies/transport/shared_memory_backend.h"
#include "levin/strategies/world/join_ranks.h"
#include "levin/strategies/world/rendezvous.h"

namespace levin {

class Accelerator;
class BucketVoteChannel;
class RunSegment;
class SharedMemoryStatusBoard;
class StoreServer;

/// This process's membership in the run: everything through which it talks to the other ranks. A process joins once; it stays a
/// member, whatever number of strategies and Trainers it makes, until it ends.
class ProcessWorld {
 public:
  struct Options {
    ControlTransport control_group = ControlTransport::kAuto;
    GradientTransport gradients = GradientTransport::kAuto;
    std::shared_ptr<const Accelerator> own_backend;  ///< gradients travel over this accelerator's backend; null: over Gloo
    Timeouts timeouts;
    double connect_timeout_seconds = 300;  ///< to find one another; where a wait may be shorter, no longer than that
  };

  /// Ranks: all. The membership of this process, joined on the first call; options of later calls do not count.
  /// Throws ConfigError, DesyncError or IoError when the ranks cannot come together.
  static std::shared_ptr<ProcessWorld> join(const ClusterEnvironment& environment, const Options& options);

  /// That membership. Throws MisuseError before join().
  static std::shared_ptr<ProcessWorld> current();
  static bool is_joined() { return membership() != nullptr; }

  const ClusterEnvironment& environment() const { return environment_; }
  ControlGroup& control_group() { return *control_group_; }
  VoteChannel& vote_channel() { return *vote_channel_; }
  /// Set when votes travel in the buckets of gradients.
  BucketVoteChannel* bucket_votes() { return bucket_votes_; }
  StatusBoard& board() { return *board_; }
  const HostCores& host_cores() const { return host_cores_; }
  /// "metrics over shared memory, gradients over shared memory"
  const std::string& transports() const { return transports_; }
  /// Ranks: all. Another group on the CPU, over Gloo: to be compared with.
  c10::intrusive_ptr<c10d::ProcessGroup> make_gloo_group(const std::string& name) const;
  /// "shared memory", "gloo", "shared memory within hosts and gloo between", "nccl": what gradients on the rank's device travel
  /// over.
  const std::string& gradient_transport() const { return gradient_transport_; }
  /// What gradients travel over, where that is shared memory.
  SharedMemoryBackend* shared_gradients() const { return shared_gradients_.get(); }
  /// From here on `observer`, if there is one, is told of every all-reduce of gradients. False where they travel over something
  /// that does not wait for other ranks within the call.
  bool observe_reductions(const WaitObserver& observer);
  /// What attempts of this run tell later ones; see RankGroup.
  std::string kept_for_restarts() const;
  void keep_for_restarts(const std::string& text) const;
  /// To be done once, when the entry point ends that goes on now. Must not throw.
  void when_entry_point_ends(std::function<void()> work) { at_end_.push_back(std::move(work)); }
  /// Called: by the rank group.
  void end_entry_point() noexcept;
  /// Gradients, parameters and large tensors travel here.
  const c10::intrusive_ptr<c10d::ProcessGroup>& process_group() const { return process_group_; }

 private:
  ProcessWorld(const ClusterEnvironment& environment, const Options& options);
  static std::shared_ptr<ProcessWorld>& membership();
  /// The launcher's memory is that of this host's ranks: of all, or, between hosts, for the launcher alone to see them.
  void join_launcher(const std::shared_ptr<RunSegment>& segment, const Options& options);
  void meet_in_segment(const std::shared_ptr<RunSegment>& segment, const Options& options);
  void join_control_group(const Options& options, bool one_host);
  void learn_cores();
  void join_process_group(const Options& options, bool one_host);
  c10::intrusive_ptr<c10d::Backend> make_gradient_backend(const Options& options, bool one_host);
  void join_over_network(const Options& options, bool one_host);
  c10::intrusive_ptr<GlooBackend> make_gloo(const std::string& name, bool one_host) const;
  /// Null, with a warning, where the ranks of one host cannot share that much memory.
  c10::intrusive_ptr<SharedMemoryBackend> make_shared_memory_backend(const Options& options);
  /// Null, on all ranks, where hosts differ or have one rank each, and, with a warning, where one cannot share that much
  /// memory.
  c10::intrusive_ptr<c10d::Backend> make_hosts_backend(const GlooBackend& flat);

  ClusterEnvironment environment_;
  std::shared_ptr<StoreServer> store_server_;  ///< rank 0's, where no launcher serves the store
  c10::intrusive_ptr<c10d::Store> store_;
  c10::intrusive_ptr<c10d::Store> notes_;                ///< torchrun's agent's, where it serves one
  std::shared_ptr<RunSegment> launched_;                 ///< what the launcher of this host's ranks has made
  std::shared_ptr<SharedMemoryStatusBoard> host_board_;  ///< the same, for the launcher
  std::optional<HostLayout> host_layout_;                ///< where ranks have met in the store
  std::shared_ptr<RunSegment> segment_;                  ///< where all ranks have met in one
  MeetingTimes times_;
  std::shared_ptr<StatusBoard> board_;
  std::unique_ptr<ControlGroup> control_group_;
  std::unique_ptr<VoteChannel> vote_channel_;
  BucketVoteChannel* bucket_votes_ = nullptr;  ///< vote_channel_, when it is one
  c10::intrusive_ptr<c10d::ProcessGroup> process_group_;
  c10::intrusive_ptr<SharedMemoryBackend> shared_gradients_;  ///< null: not over shared memory
  std::unique_ptr<FailureWatch> watch_;
  HostCores host_cores_;
  std::string transports_;
  std::string gradient_transport_;
  std::vector<std::function<void()>> at_end_;  ///< of the entry point
};

}  // namespace levin
