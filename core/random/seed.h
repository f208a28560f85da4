#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/base/fwd.h"

namespace levin {

/// Seeds every random number generator that levin or LibTorch uses by itself: that of each device, and std::rand for code that
/// still uses it. Every rank of a run seeds with the same number, as Lightning does, so that ranks initialize equal
/// weights; a rank that wants random numbers of its own, such as for augmentation, derives them from (seed, rank). Gives the
/// seed back.
LEVIN_API std::uint64_t seed_everything(std::uint64_t seed);

/// The seed last given to seed_everything() in this process; data loaders without a seed of their own order samples by it.
LEVIN_API std::optional<std::uint64_t> global_seed();

}  // namespace levin
