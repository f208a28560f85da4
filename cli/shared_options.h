#pragma once

#include <string>
#include <vector>

#include "levin/core/options/value.h"

namespace levin::cli {

/// A line for each option that the arguments of `model:` and `data:` have both, with different values, of which at least one
/// was given: such as a batch_size or num_classes that was changed in one place. Each names both values and their places.
std::vector<std::string> different_shared_options(const Value& model, const Value& data);

}  // namespace levin::cli
