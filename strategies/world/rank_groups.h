#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <optional>
#include <string>

#include "levin/core/protocol/control_group.h"
#include "levin/core/rank_group.h"

namespace levin {

/// A rank group in this process's Slurm job, if any.
class JobRankGroup : public RankGroup {
 public:
  std::optional<BatchJob> batch_job() const override;
  void requeue(const BatchJob& job) override;
};

/// A single process.
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
