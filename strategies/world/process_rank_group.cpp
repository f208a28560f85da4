#include "levin/strategies/world/process_rank_group.h"

#include "levin/strategies/launch/slurm_job.h"
#include "levin/strategies/transport/failure_report.h"

namespace levin {

ProcessRankGroup::ProcessRankGroup(std::shared_ptr<ProcessWorld> world)
    : world_(std::move(world)), collectives_(*world_), votes_(world_->control_group()) {}

void ProcessRankGroup::post_whereabouts(const Whereabouts& whereabouts) {
  StatusBoard& board = world_->board();
  // A reduction runs inside backward; every other hook comes after its end.
  if (whereabouts.hook != Hook::kBackward && whereabouts.hook != Hook::kOnBeforeBackward) board.end_reduction();
  board.post_whereabouts(whereabouts);
  // The first hook of every entry point: from here to its end, a process that ends has failed.
  if (whereabouts.hook == Hook::kConfigureCallbacks) board.post_busy(true);
}

void ProcessRankGroup::report_failure(const Whereabouts& whereabouts, const std::exception_ptr& error) noexcept {
  consequence_ = report_own_failure(world_->board(), whereabouts, error);
}

std::optional<std::string> ProcessRankGroup::failure_elsewhere() const {
  // Who asks leaves with it. Until then the failure watch may end this process, and says it.
  if (consequence_) world_->board().post_explained();
  return consequence_;
}

std::optional<int> ProcessRankGroup::lost_rank() const {
  const auto failure = world_->board().failure();
  return failure && failure->is_lost ? std::optional(failure->rank) : std::nullopt;
}

void ProcessRankGroup::end_entry_point() noexcept {
  world_->end_entry_point();
  world_->board().end_reduction();
  world_->board().post_busy(false);
}

std::optional<BatchJob> ProcessRankGroup::batch_job() const {
  const auto job = slurm_job();
  return job ? std::optional(BatchJob{"Slurm", job->number, job->restarts}) : std::nullopt;
}

void ProcessRankGroup::requeue(const BatchJob& job) { requeue_slurm_job(job.number); }

}  // namespace levin
