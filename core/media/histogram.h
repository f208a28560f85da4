#pragma once

#include <span>

#include "levin/core/logged_item.h"

namespace levin {

/// The distribution of these numbers: 64 buckets of one width between the least and the greatest finite number, or a single one
/// if these are equal.
LoggedHistogram histogram_of(std::span<const float> numbers);
LoggedHistogram histogram_of(std::span<const double> numbers);

}  // namespace levin
