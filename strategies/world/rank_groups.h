#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "levin/core/rank_group.h"
#include "levin/strategies/failure/status_board.h"
#include "levin/strategies/world/process_world.h"

namespace levin {

/// Up to this size a tensor of a user's travels over the control group, which answers within microseconds.
inline constexpr std::size_t kSmallTensorBytes = 32 * 1024;

/// Makes this rank's failure known to all, and to torchrun. ConnectionLost, and LibTorch's own errors of its groups, only say
/// that another rank is gone or a link is lost: then that failure is looked for first, for a few seconds at most. Any other
/// error is this rank's own, and is told at once.
///
/// Gives what this rank has to say when another was first to fail: one line that names that failure, and this rank's own error
/// where it has one. Nothing when this rank was the first.
std::optional<std::string> report_own_failure(StatusBoard& board, const Whereabouts& where,
                                              const std::exception_ptr& error) noexcept;

/// A rank group, in whatever job of Slurm's this process is.
class JobRankGroup : public RankGroup {
 public:
  std::optional<BatchJob> batch_job() const override;
  void requeue(const BatchJob& job) override;
};

/// Several processes, of which this is one: a member of a ProcessWorld. In a collective of the user's ranks first meet over the
/// control group and say which call this is: operation, call site, shape and type must be the same, and every rank gets the
/// same DesyncError when they are not. Only then data moves: small tensors over the control group, large ones over the process
/// group.
class ProcessRankGroup final : public JobRankGroup {
 public:
  explicit ProcessRankGroup(std::shared_ptr<ProcessWorld> world);

  int rank() const override { return world_->environment().rank; }
  int world_size() const override { return world_->environment().world_size; }
  int local_rank() const override { return world_->environment().local_rank; }
  int node_rank() const override { return world_->environment().node_rank; }
  int ranks_of_host() const override { return world_->host_cores().ranks; }
  int cores_of_host() const override { return world_->host_cores().cores; }
  std::string description() const override { return world_size() == 1 ? "" : world_->transports(); }

  int restarts() const override { return world_->environment().restarts; }
  std::string kept_for_restarts() const override { return world_->kept_for_restarts(); }
  void keep_for_restarts(const std::string& text) override { world_->keep_for_restarts(text); }

  ControlGroup& control_group() override { return world_->control_group(); }
  VoteChannel& vote_channel() override { return votes_; }

  at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where) override;
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) override;
  at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) override;
  void barrier(const std::string& what, SourceLocation where) override;

  void post_whereabouts(const Whereabouts& whereabouts) override;
  void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept override;
  std::optional<std::string> failure_elsewhere() const override;
  std::optional<int> lost_rank() const override;
  void end_entry_point() noexcept override;

 private:
  /// Throws DesyncError on every rank where they come to `what` with other tensors or arguments.
  void agree(const at::Tensor& tensor, std::int64_t detail, const std::string& what);
  at::Tensor gather(const at::Tensor& tensor, const std::string& what);

  std::shared_ptr<ProcessWorld> world_;
  GatheredVoteChannel votes_;
  std::optional<std::string> consequence_;  ///< what this rank says when another was first to fail
};

/// One process alone: every exchange is with oneself.
class SingleRankGroup final : public JobRankGroup {
 public:
  int rank() const override { return 0; }
  int world_size() const override { return 1; }
  int local_rank() const override { return 0; }
  int node_rank() const override { return 0; }

  ControlGroup& control_group() override { return group_; }
  VoteChannel& vote_channel() override { return votes_; }

  at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where) override;
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) override;
  at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) override;
  void barrier(const std::string&, SourceLocation) override {}

  void post_whereabouts(const Whereabouts&) override {}
  void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept override;

 private:
  SingleProcessGroup group_;
  GatheredVoteChannel votes_{group_};
};

}  // namespace levin
