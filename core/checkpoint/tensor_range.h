#pragma once

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>

#include "levin/core/checkpoint/checkpoint.h"

namespace levin {

/// The tensors whose names begin with `prefix`, by name. The checkpoint must outlive the range.
inline auto tensors_with_prefix(const Checkpoint& checkpoint, std::string_view prefix) {
  const auto first = checkpoint.tensors.lower_bound(std::string(prefix));
  const auto last = std::find_if_not(first, checkpoint.tensors.end(),
                                     [prefix](const auto& entry) { return entry.first.starts_with(prefix); });
  return std::ranges::subrange(first, last);
}

}  // namespace levin
