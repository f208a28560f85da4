#pragma once

#include <string>
#include <vector>

namespace levin::detail {

/// "rank 3", "ranks 0, 2", "ranks 0-5, 9". The ranks ascend.
std::string rank_list(const std::vector<int>& ranks);

}  // namespace levin::detail
