#pragma once

#include <optional>
#include <string_view>

#include "levin/core/options/value.h"

namespace torch::optim {
class OptimizerOptions;
}

namespace levin {

/// The options of a parameter group by PyTorch's names: those of LibTorch's optimizers, and of each DescribedOptimizer. An
/// empty map for a class that does not tell them.
Value option_values(const torch::optim::OptimizerOptions& options);

/// Sets every option to its value. Throws ConfigError when one lacks a value, or cannot have it; others in `values` are left
/// out.
void set_option_values(torch::optim::OptimizerOptions& options, const Value& values);

/// One of them; nothing when there is none of that name.
std::optional<Value> option_value(const torch::optim::OptimizerOptions& options, std::string_view name);
/// False when there is none of that name.
bool set_option_value(torch::optim::OptimizerOptions& options, std::string_view name, const Value& value);

}  // namespace levin
