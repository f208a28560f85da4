#pragma once

#include <string>

#include "levin/core/options/value.h"

namespace levin::cli {

/// What an unquoted YAML scalar means, by YAML 1.2's core schema with two habits of Python's readers: digits may be grouped
/// with
/// '_' (50_000), and 1e-3 is a float. Everything else (yes, 0:30, 2026-01-01) is a string.
/// Throws ConfigError (without a mark) on a number that does not fit into 64 bits.
Value resolve_plain_scalar(const std::string& text);

}  // namespace levin::cli
