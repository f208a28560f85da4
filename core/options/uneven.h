#pragma once

#include <cstdint>

#include "levin/core/options/choice.h"

namespace levin {

/// What to do with training samples that do not divide evenly over ranks.
enum class Uneven : std::uint8_t {
  kPad,   ///< repeat samples from the start, so that every rank has as many (Lightning's way)
  kDrop,  ///< leave the remainder out
  kKeep   ///< leave it uneven: a rank without a batch takes part with weight 0
};
template <>
inline constexpr std::array kChoices<Uneven> = {Choice{Uneven::kPad, "pad"}, Choice{Uneven::kDrop, "drop"},
                                                Choice{Uneven::kKeep, "keep"}};

}  // namespace levin
