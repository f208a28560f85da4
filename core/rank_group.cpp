#include "levin/core/rank_group.h"

namespace levin {

RankGroup::~RankGroup() = default;
std::string RankGroup::description() const { return ""; }
void RankGroup::synchronize_batch_norms(const torch::nn::Module&) {}
std::optional<std::string> RankGroup::failure_elsewhere() const { return std::nullopt; }
void RankGroup::end_entry_point() noexcept {}

}  // namespace levin
