#include "levin/core/engine/parts/gradient_accumulation.h"

#include <algorithm>
#include <map>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/protocol/boundary_exchange.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

std::int64_t GradientAccumulation::scale() const { return std::max<std::int64_t>(1, full_batch_size) * batches; }

std::int64_t GradientAccumulation::full_weight(int world_size) const {
  // One process that steps after every batch has nothing to weigh one batch against.
  const bool alone = world_size == 1 && batches == 1;
  return alone || full_batch_size == 0 ? 1 : full_batch_size;
}

std::int64_t GradientAccumulation::weight_of(std::int64_t samples, int world_size) const {
  return full_weight(world_size) == 1 ? 1 : samples;
}

double GradientAccumulation::correction(std::int64_t weight, int world_size) const {
  const std::int64_t full = full_weight(world_size) * batches * world_size;
  return weight == full ? 1.0 : static_cast<double>(full) / static_cast<double>(weight);
}

void check_same_accumulation(const std::vector<Votes>& by_rank) {
  const auto is_first = [&](const Votes& votes) {
    return votes.accumulate_grad_batches == by_rank.front().accumulate_grad_batches;
  };
  if (std::all_of(by_rank.begin(), by_rank.end(), is_first)) return;
  std::map<std::int32_t, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    ranks[by_rank[rank].accumulate_grad_batches].push_back(static_cast<int>(rank));
  }
  const auto text_of = [](const auto& group) { return format("{} on {}", group.first, detail::rank_list(group.second)); };
  throw DesyncError(format(
      "Ranks accumulate the gradients of different numbers of batches for a step: {}. Call set_accumulate_grad_batches() "
      "with the same number on all ranks, in a hook that all of them run at the same batch, such as "
      "on_train_epoch_start.",
      join(ranks, "; ", text_of)));
}

}  // namespace levin
