#include "levin/core/diagnostics/rank_reports.h"

#include <numeric>

#include "levin/core/accelerator.h"
#include "levin/core/base/process.h"
#include "levin/core/diagnostics/work_watch.h"

namespace levin {

namespace {
constexpr std::size_t kMemory = kKindsOfWork + 1;  // behind the time of waits
}

BoundaryPayload RankReports::payload(BoundaryPayload work, const Strategy& strategy) {
  if (const double now = steady_seconds(); now - memory_since_ >= 1) {
    memory_since_ = now;
    memory_ = process_memory().resident;
    const auto device = strategy.accelerator().memory(strategy.device());
    device_memory_ = device ? device->allocated : 0;
  }
  work[kMemory] = memory_;
  work[kMemory + 1] = device_memory_;
  return work;
}

void RankReports::take(const std::vector<BoundaryPayload>& by_rank) {
  by_rank_.clear();
  for (const BoundaryPayload& payload : by_rank) {
    const auto waits = static_cast<double>(payload[kKindsOfWork]);
    const auto work = static_cast<double>(std::accumulate(payload.begin(), payload.begin() + kKindsOfWork, std::int64_t{0}));
    const auto working = work + waits > 0 ? std::optional(work / (work + waits)) : std::nullopt;
    by_rank_.push_back({.working = working, .memory = payload[kMemory], .device_memory = payload[kMemory + 1]});
  }
}

}  // namespace levin
