#pragma once

#include <cstdint>
#include <vector>

namespace levin::detail {

/// The part of each of `size` samples, by its number, as random_split() divides them: 1 byte for each, and 4 or 8 more while
/// they are drawn.
std::vector<std::uint8_t> random_parts(std::int64_t size, const std::vector<double>& fractions, std::int64_t seed);

}  // namespace levin::detail
