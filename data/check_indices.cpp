#include "levin/data/check_indices.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

void check_indices(std::span<const std::int64_t> indices, std::int64_t size, std::string_view who) {
  const auto wrong = std::find_if(indices.begin(), indices.end(), [size](std::int64_t i) { return i < 0 || i >= size; });
  if (wrong == indices.end()) return;
  throw MisuseError(format("{}: index {} is not in a dataset of {} samples", who, *wrong, size));
}

}  // namespace levin
