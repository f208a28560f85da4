#include "levin/strategies/world/rank_groups.h"

#include "levin/strategies/launch/cluster_environment.h"
#include "levin/strategies/world/collective_arguments.h"
#include "levin/strategies/world/failure_report.h"

namespace levin {

std::optional<BatchJob> JobRankGroup::batch_job() const {
  const auto job = slurm_job();
  return job ? std::optional(BatchJob{"Slurm", job->number, job->restarts}) : std::nullopt;
}

void JobRankGroup::requeue(const BatchJob& job) { requeue_slurm_job(job.number); }

at::Tensor SingleRankGroup::all_gather(const at::Tensor& tensor, SourceLocation) {
  return tensor.detach().unsqueeze(0).clone();
}

at::Tensor SingleRankGroup::all_reduce(const at::Tensor& tensor, const std::string& op, SourceLocation where) {
  check_reducible(parse_reduce_op(op, where), tensor, where);
  return tensor.detach().clone();
}

at::Tensor SingleRankGroup::broadcast(const at::Tensor& tensor, int source_rank, SourceLocation where) {
  check_source_rank(source_rank, 1, where);
  return tensor.detach().clone();
}

void SingleRankGroup::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  report_failure_alone(whereabouts, error);
}

}  // namespace levin
