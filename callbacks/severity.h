#pragma once

#include <array>
#include <cstdint>

#include "levin/core/config/option_type.h"

namespace levin {

/// What follows when a check finds something: a warning, or an error that ends the run.
enum class Severity : std::uint8_t { kWarn, kError };
template <>
inline constexpr std::array kChoices<Severity> = {Choice{Severity::kWarn, "warn"}, Choice{Severity::kError, "error"}};

}  // namespace levin
