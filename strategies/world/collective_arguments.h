#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "levin/core/base/fwd.h"
#include "levin/core/protocol/metrics.h"

// The arguments of users' collectives, with the same checks on one rank and on several.
namespace levin {

/// "digits.cpp:41"
std::string call_site_text(SourceLocation where);

// Each throws MisuseError with the call site.

/// "mean" ("avg"), "sum", "min" or "max".
Reduce parse_reduce_op(const std::string& name, SourceLocation where);
/// A tensor must have a value. A mean needs a floating-point (or complex) tensor; for integers it would lose its fraction.
/// Complex numbers have no min or max.
void check_reducible(Reduce op, const at::Tensor& tensor, SourceLocation where);
void check_source_rank(int source_rank, int world_size, SourceLocation where);

}  // namespace levin
