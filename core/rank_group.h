#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <optional>
#include <string>

#include "levin/core/base/error.h"
#include "levin/core/base/fwd.h"
#include "levin/core/base/hook.h"
#include "levin/core/protocol/control_group.h"

namespace torch::nn {
class Module;
}

namespace levin {

/// The job of a scheduler that a run is part of, and that can go back into the scheduler's queue.
struct LEVIN_API BatchJob {
  std::string scheduler;  ///< "Slurm"
  std::string number;
  int restarts = 0;  ///< how often it has come out of the queue again
};

/// The processes of a run, as one of them sees them: its rank, how ranks exchange values, what happens when one fails;
/// gradients are a Strategy's. Implementations: strategies/. Ranks: collectives are called on all in one order, all else on one
/// alone.
class LEVIN_API RankGroup {
 public:
  virtual ~RankGroup();

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// Among the ranks of this host.
  virtual int local_rank() const = 0;
  /// Which host, where the launcher says it.
  virtual int node_rank() const = 0;
  /// How many ranks are on this host, and on how many cores any of them may run: a launcher may bind each to its own.
  virtual int ranks_of_host() const { return 1; }
  virtual int cores_of_host() const;
  /// What the ranks talk over: "metrics over shared memory, gradients over shared memory"; "" for one rank.
  virtual std::string description() const { return ""; }

  /// For metrics and decisions.
  virtual ControlGroup& control_group() = 0;
  /// Votes that travel by themselves: ranks meet when they read. Right for every strategy.
  virtual VoteChannel& vote_channel() = 0;

  /// Collectives for users. Each names its call site; when ranks meet in different calls, all of them end with an error that
  /// prints both sites. What they give is cut off from the graph: gradients stop (Module::all_gather can bring them back).
  /// Ranks: all.
  /// all_gather stacks along a new first dimension: result[r] is rank r's tensor; shapes are equal on all ranks.
  virtual at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where) = 0;
  /// `op` is mean, sum, min or max.
  virtual at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) = 0;
  virtual at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) = 0;
  virtual void barrier(const std::string& what, SourceLocation where) = 0;

  /// Where this rank is now. Cheap: called at every hook. Must not throw.
  virtual void post_whereabouts(const Whereabouts& whereabouts) = 0;
  /// Called on the failing rank alone: tells the others and the launcher of its error, not null. Never throws or waits for
  /// ranks.
  virtual void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept = 0;
  /// What happened, when another rank was the first to fail: "rank 1 failed in training_step (…): …". This rank's own error is
  /// then a consequence. Never waits.
  virtual std::optional<std::string> failure_elsewhere() const { return std::nullopt; }

  /// The rank that was the first to fail, where its process has ended without a word of its own. Never waits.
  virtual std::optional<int> lost_rank() const { return std::nullopt; }

  /// How often the launcher has started all ranks again after a failure; 0 in the first attempt.
  virtual int restarts() const { return 0; }
  /// The last text that earlier attempts of this run kept; "": none, or nobody keeps it. Ranks: all may read; rank 0 keeps.
  virtual std::string kept_for_restarts() const { return ""; }
  /// False where there is no room for it: what was kept before stays.
  virtual bool keep_for_restarts(const std::string& /*text*/) { return true; }
  /// The job that this run is part of; unset where no scheduler runs it. Ranks: all have the same.
  virtual std::optional<BatchJob> batch_job() const { return std::nullopt; }
  /// Puts that job back into its queue, which ends this process soon. Called: on rank 0, when the state is saved. Throws
  /// IoError.
  virtual void requeue(const BatchJob& job);

  /// Called: at the end of an entry point. From here to the first hook of the next, a process may end without having failed.
  virtual void end_entry_point() noexcept {}
};

}  // namespace levin
