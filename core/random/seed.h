#pragma once

#include <cstdint>
#include <optional>

#include "levin/core/base/fwd.h"

namespace levin {

/// Seeds every random number generator that levin or LibTorch uses by default: those of all devices, and std::rand. Every rank
/// of a run uses the same seed, as in Lightning, so that ranks initialize equal weights; derive numbers that differ between
/// ranks, such as for augmentation, from (seed, rank). Returns the seed.
LEVIN_API std::uint64_t seed_everything(std::uint64_t seed);

/// The seed last given to seed_everything() in this process; data loaders without their own seed order samples by it.
LEVIN_API std::optional<std::uint64_t> global_seed();

}  // namespace levin
