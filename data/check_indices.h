#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace levin {

/// Throws MisuseError when an index is not in 0 … size - 1.
void check_indices(std::span<const std::int64_t> indices, std::int64_t size, std::string_view who);

}  // namespace levin
