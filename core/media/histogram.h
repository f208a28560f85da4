#pragma once

#include <span>

#include "levin/core/logged_item.h"

namespace levin {

/// How these numbers are distributed: in 64 buckets of one width between the least and the greatest that is finite, in a single
/// one where these are the same.
LoggedHistogram histogram_of(std::span<const float> numbers);
LoggedHistogram histogram_of(std::span<const double> numbers);

}  // namespace levin
