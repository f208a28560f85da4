#include "levin/core/rank_group.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"

namespace levin {

RankGroup::~RankGroup() = default;
int RankGroup::cores_of_host() const { return usable_cores(); }
void RankGroup::requeue(const BatchJob& job) {
  throw MisuseError(format("job {} of {}: these ranks cannot requeue it", job.number, job.scheduler));
}

}  // namespace levin
