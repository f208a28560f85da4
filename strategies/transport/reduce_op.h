#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "levin/core/base/error.h"
#include "levin/core/protocol/log_options.h"

namespace levin {

// Checks of the arguments of users' collectives, the same for every strategy. Each throws MisuseError with the call site.

/// "mean", "sum", "min" or "max".
Reduce parse_reduce_op(const std::string& name, SourceLocation where);
/// A tensor has a value. A mean needs a floating-point (or complex) tensor; of whole numbers it would lose its fraction.
/// Complex numbers have no min or max.
void check_reducible(Reduce op, const at::Tensor& tensor, SourceLocation where);
void check_source_rank(int source_rank, int world_size, SourceLocation where);

/// "digits.cpp:41"
std::string call_site_text(SourceLocation where);

}  // namespace levin
