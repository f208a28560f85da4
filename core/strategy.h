#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include "levin/core/base/source_location.h"

#include "levin/core/export.h"
#include "levin/core/fwd.h"
#include "levin/core/options/devices.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/hook.h"
#include "levin/core/protocol/vote_board.h"
#include "levin/core/protocol/whereabouts.h"

namespace levin {

/// What the Trainer asks of the machine.
struct LEVIN_API LaunchRequest {
  std::string accelerator = "auto";
  Devices devices;
  int num_nodes = 1;
  double stall_report_seconds = 60;
  double timeout_seconds = 1800;
};

/// Which processes take part in a run, and how their gradients become one. Implementations: strategies/.
/// Ranks: every method but the getters is called on all ranks in the same order, unless it says otherwise.
class LEVIN_API Strategy {
 public:
  virtual ~Strategy();

  /// The strategy that this one stands for, given a request and the environment; itself when null. `auto` uses it.
  virtual std::shared_ptr<Strategy> resolve(const LaunchRequest& request);
  /// Called: first, by the Trainer's constructor. Reads the environment, starts the other ranks when nobody else did (the
  /// calling process then becomes their launcher and never returns), and joins them. Throws ConfigError when devices or
  /// environment variables make no sense.
  virtual void launch(const LaunchRequest& request) = 0;

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  virtual int local_rank() const = 0;
  virtual int node_rank() const = 0;
  bool is_global_zero() const { return rank() == 0; }
  /// Where this rank's module and batches live.
  virtual at::Device device() const = 0;
  virtual std::string name() const = 0;
  /// The name, and what the ranks talk over where there is a choice. Called: after launch().
  virtual std::string description() const;

  virtual ControlGroup& control_group() = 0;
  virtual VoteBoard& vote_board() = 0;

  /// Called: after the module is on its device. Makes parameters and buffers equal on all ranks (rank 0's), and, for training,
  /// prepares the reduction of gradients. A second call replaces the first.
  virtual void setup_module(Module& module, bool training) = 0;
  /// Called: before a backward pass. `synchronize` false: gradients stay local (accumulation).
  virtual void before_backward(const at::Tensor& loss, bool synchronize) = 0;
  /// Takes part in the reduction of a step for which this rank has no batch: contributes zero gradients.
  virtual void backward_without_batch(Module& module) = 0;
  /// Buffers (running statistics) of all ranks become rank 0's, before a forward pass in training.
  virtual void synchronize_buffers(Module& module) = 0;
  /// Called on this rank alone: where it is now. Cheap: called at every hook.
  virtual void post_whereabouts(const Whereabouts& whereabouts) = 0;

  /// Collectives for users. Each names its call site; when ranks meet in different calls, all of them end with an error that
  /// prints both sites. Ranks: all.
  /// all_gather stacks along a new first dimension: result[r] is rank r's tensor; shapes are equal on all ranks.
  virtual at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where = SourceLocation::current()) = 0;
  /// `op` is mean, sum, min or max.
  virtual at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op = "mean",
                                SourceLocation where = SourceLocation::current()) = 0;
  virtual at::Tensor broadcast(const at::Tensor& tensor, int source_rank = 0,
                               SourceLocation where = SourceLocation::current()) = 0;
  virtual void barrier(const std::string& what = "", SourceLocation where = SourceLocation::current()) = 0;

  /// Called on the failing rank alone: tells the others and the launcher of its error, which is not null. Never throws, never
  /// waits for other ranks.
  virtual void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept = 0;
  /// What happened, when another rank was the first to fail: "rank 1 failed in training_step (…): …". This rank's own error is
  /// then a consequence. Never waits.
  virtual std::optional<std::string> failure_elsewhere() const;
  /// Called: at the end of an entry point. Releases what setup_module made; the group stays for the next entry point.
  virtual void teardown() noexcept = 0;
};

}  // namespace levin
