#include "levin/core/seed.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace levin {

std::uint64_t seed_everything(std::uint64_t seed) {
  at::manual_seed(seed);
  std::srand(static_cast<unsigned>(seed));
  return seed;
}

}  // namespace levin
