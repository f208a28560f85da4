#include "levin/data/random.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace levin {

Random::Random(std::uint64_t seed) : at::Generator(at::make_generator<at::CPUGeneratorImpl>(seed)) {}

Random::result_type Random::operator()() {
  const std::lock_guard lock(mutex());
  return get<at::CPUGeneratorImpl>()->random64();
}

}  // namespace levin
