#include "levin/core/protocol/coverage.h"

#include <string_view>

#include "levin/core/base/format.h"
#include "levin/core/protocol/rank_list.h"

namespace levin::detail {

namespace {

std::string what_counts(const MetricEntry& entry, Level level, int first_rank) {
  const bool reduced = level == Level::kStep ? entry.options.step_is_reduced() : entry.options.epoch_is_reduced();
  if (!reduced) return format("its value is rank {}'s", first_rank);
  return format("its value is the {} over the ranks that logged it", reduce_name(entry.options.reduce));
}

}  // namespace

std::string missing_ranks(const MetricEntry& entry, Level level, std::span<const Slot> by_rank,
                          std::span<const std::int64_t> batches) {
  if (entry.options.rank_zero_only) return {};
  const bool once_a_batch = !hook_policy(entry.hook).epoch_only;
  std::vector<int> with;
  std::vector<int> without;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    if (by_rank[rank].present()) {
      with.push_back(static_cast<int>(rank));
    } else if (!once_a_batch || batches[rank] > 0) {
      without.push_back(static_cast<int>(rank));
    }
  }
  if (with.empty() || without.empty()) return {};
  if (with.size() == 1 && std::string_view(entry.name).starts_with(rank_prefix(with.front()))) return {};
  return format("log(\"{}\") in {} ({}) ran on {} and not on {}: {}", entry.plain_name, hook_name(entry.hook), entry.site,
                rank_list(with), rank_list(without), what_counts(entry, level, with.front()));
}

}  // namespace levin::detail
