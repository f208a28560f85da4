#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace levin::detail {

/// "rank 3", "ranks 0, 2", "ranks 0-5, 9". The ranks ascend.
std::string rank_list(const std::vector<int>& ranks);

/// "rank_3_": what the key of a value that is one rank's own begins with.
std::string rank_prefix(std::int64_t rank);

}  // namespace levin::detail
