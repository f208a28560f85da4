#include "levin/strategies/world/single_rank_group.h"

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/console/console.h"
#include "levin/strategies/failure/error_file.h"
#include "levin/strategies/launch/slurm_job.h"
#include "levin/strategies/transport/reduce_op.h"

namespace levin {

namespace {

/// An error of the configuration, which names its own file and line.
bool tells_its_place(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ConfigError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

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
  try {
    const std::string text = error_text(error);
    write_error_file({0, whereabouts, text});
    if (tells_its_place(error)) return;
    const std::string told = format("failed {}: {}", describe_place(whereabouts), text);
    // Whoever embeds levin hears of it once, by what is thrown.
    if (!OwnProcess::is_one()) return Console::instance().record(LogLevel::kError, told);
    Console::instance().error(told);
    Console::instance().mark_told(error);
  } catch (const std::exception&) {
    // Out of memory while reporting: the error itself is on its way.
  }
}

std::optional<BatchJob> SingleRankGroup::batch_job() const {
  const auto job = slurm_job();
  return job ? std::optional(BatchJob{"Slurm", job->number, job->restarts}) : std::nullopt;
}

void SingleRankGroup::requeue(const BatchJob& job) { requeue_slurm_job(job.number); }

}  // namespace levin
