#pragma once

#include <memory>

#include "levin/core/rank_group.h"
#include "levin/strategies/world/process_world.h"
#include "levin/strategies/world/user_collectives.h"

namespace levin {

/// Several processes, of which this is one: a member of a ProcessWorld.
class ProcessRankGroup final : public RankGroup {
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

  std::optional<BatchJob> batch_job() const override;
  void requeue(const BatchJob& job) override;
  ControlGroup& control_group() override { return world_->control_group(); }
  VoteChannel& vote_channel() override { return votes_; }

  at::Tensor all_gather(const at::Tensor& tensor, SourceLocation where) override {
    return collectives_.all_gather(tensor, where);
  }
  at::Tensor all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) override {
    return collectives_.all_reduce(tensor, op, where);
  }
  at::Tensor broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) override {
    return collectives_.broadcast(tensor, source_rank, where);
  }
  void barrier(const std::string& what, SourceLocation where) override { collectives_.barrier(what, where); }

  void post_whereabouts(const Whereabouts& whereabouts) override;
  void report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept override;
  std::optional<std::string> failure_elsewhere() const override;
  std::optional<int> lost_rank() const override;
  void end_entry_point() noexcept override;

 private:
  std::shared_ptr<ProcessWorld> world_;
  UserCollectives collectives_;
  GatheredVoteChannel votes_;
  std::optional<std::string> consequence_;  ///< what this rank says when another was first to fail
};

}  // namespace levin
