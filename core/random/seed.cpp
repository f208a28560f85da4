#include "levin/core/random/seed.h"

#include <cstdlib>

#include "levin/core/random/rng_state.h"

namespace levin {

namespace {
std::optional<std::uint64_t> last_seed;
}  // namespace

std::uint64_t seed_everything(std::uint64_t seed) {
  seed_generators(seed);
  std::srand(static_cast<unsigned>(seed));
  last_seed = seed;
  return seed;
}

std::optional<std::uint64_t> global_seed() { return last_seed; }

}  // namespace levin
