#include "levin/core/rank_group.h"

#include "levin/core/base/format.h"
#include "levin/core/base/process.h"

namespace levin {

RankGroup::~RankGroup() = default;
std::string RankGroup::description() const { return ""; }
std::optional<std::string> RankGroup::failure_elsewhere() const { return std::nullopt; }
std::optional<int> RankGroup::lost_rank() const { return std::nullopt; }
int RankGroup::ranks_of_host() const { return 1; }
int RankGroup::cores_of_host() const { return usable_cores(); }
int RankGroup::restarts() const { return 0; }
std::string RankGroup::kept_for_restarts() const { return ""; }
void RankGroup::keep_for_restarts(const std::string&) {}
std::optional<BatchJob> RankGroup::batch_job() const { return std::nullopt; }
void RankGroup::requeue(const BatchJob& job) {
  throw MisuseError(format("job {} of {}: this kind of ranks cannot put it back into its queue", job.number, job.scheduler));
}
void RankGroup::end_entry_point() noexcept {}

}  // namespace levin
