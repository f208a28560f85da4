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

/// The batch job of a run, which can be requeued.
struct LEVIN_API BatchJob {
  std::string scheduler;  ///< "Slurm"
  std::string number;
  int restarts = 0;  ///< the number of requeues
};

/// The processes of a run, from one rank's view: its rank, the exchange of values, the handling of failures. Gradients are a
/// Strategy's. Implementations: strategies/. Ranks: collectives on all in one order, all else on any.
class LEVIN_API RankGroup {
 public:
  virtual ~RankGroup();

  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// Among the ranks of this host.
  virtual int local_rank() const = 0;
  /// The host's index, if the launcher reports it.
  virtual int node_rank() const = 0;
  /// The ranks on this host, and the cores on which any of them may run: a launcher may bind each rank to some.
  virtual int ranks_of_host() const { return 1; }
  virtual int cores_of_host() const;
  /// The transports of the ranks: "metrics over shared memory, gradients over shared memory"; "" for one rank.
  virtual std::string description() const { return ""; }

  /// For metrics and decisions.
  virtual ControlGroup& control_group() = 0;
  /// A separate channel for votes: reading them is a barrier. Correct for every strategy.
  virtual VoteChannel& vote_channel() = 0;

  /// Collectives for users. Each names its call site; when ranks are in different calls, all end with an error that prints both
  /// sites. Results are detached from the graph (Module::all_gather can pass gradients). Ranks: all. all_gather stacks along a
  /// new first dimension: result[r] is rank r's tensor; shapes are equal on all ranks.
  virtual at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where) = 0;
  /// `op` is mean, sum, min or max.
  virtual at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) = 0;
  virtual at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) = 0;
  virtual void barrier(const std::string& what, SourceLocation where) = 0;

  /// Publishes where this rank is now. Called: at every hook, so it must be cheap. Must not throw.
  virtual void post_whereabouts(const Whereabouts& whereabouts) = 0;
  /// Called: on the failing rank only. Reports its error, not null, to the other ranks and the launcher. Never throws or waits
  /// for ranks.
  virtual void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept = 0;
  /// Publishes that this rank saves what it can after a failure, or that it has done so: until then it gets more time to end.
  virtual void post_saving(bool /*saving*/) noexcept {}
  /// What happened, when another rank was the first to fail: "rank 1 failed in training_step (…): …". This rank's own error is
  /// then a consequence. Never waits.
  virtual std::optional<std::string> failure_elsewhere() const { return std::nullopt; }

  /// The rank that failed first, if its process ended without reporting an error. Never waits.
  virtual std::optional<int> lost_rank() const { return std::nullopt; }

  /// How often the launcher has started all ranks again after a failure; 0 in the first attempt.
  virtual int restarts() const { return 0; }
  /// The last text that earlier attempts of this run stored; "": none, or there is no launcher to store it. Ranks: all may
  /// read; rank 0 stores.
  virtual std::string restart_state() const { return ""; }
  /// False if there is no room for it: the previous text stays.
  virtual bool store_restart_state(const std::string& /*text*/) { return true; }
  /// The job that this run is part of; unset: none. Ranks: all get the same.
  virtual std::optional<BatchJob> batch_job() const { return std::nullopt; }
  /// Requeues that job, which soon ends this process. Called: on rank 0, when the state is saved. Throws IoError.
  virtual void requeue(const BatchJob& job);

  /// Called: at the end of an entry point. From here to the first hook of the next, the end of a process is not a failure.
  virtual void end_entry_point() noexcept {}
};

/// While it lives, this rank saves what it can after a failure.
class SavingScope {
 public:
  explicit SavingScope(RankGroup& ranks) : ranks_(ranks) { ranks_.post_saving(true); }
  ~SavingScope() { ranks_.post_saving(false); }
  SavingScope(const SavingScope&) = delete;
  SavingScope& operator=(const SavingScope&) = delete;

 private:
  RankGroup& ranks_;
};

}  // namespace levin
