#pragma once

#include <cstring>

#include "levin/core/config/value.h"

namespace levin::fuzz {

/// Equal content, floats bit by bit, except that one NaN is as good as another.
inline bool same(const Value& left, const Value& right) {
  if (left.is_double() && right.is_double()) {
    const double a = left.as_double();
    const double b = right.as_double();
    return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b);
  }
  if (left.size() != right.size()) return false;
  if (left.is_list() && right.is_list()) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!same(left.as_list()[i], right.as_list()[i])) return false;
    }
    return true;
  }
  if (left.is_map() && right.is_map()) {
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto& [key, value] = left.as_map()[i];
      const auto& [other_key, other_value] = right.as_map()[i];
      if (key != other_key || !same(value, other_value)) return false;
    }
    return true;
  }
  return left == right;
}

}  // namespace levin::fuzz
