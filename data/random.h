#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "levin/core/base/fwd.h"

namespace levin {

/// A generator that LibTorch's functions take, and the distributions of the standard library as well.
///
///     torch::randn({32, 2}, rng);
///     std::uniform_int_distribution<int>(1, 6)(rng);
class LEVIN_API Random : public at::Generator {
 public:
  using result_type = std::uint64_t;
  explicit Random(std::uint64_t seed);
  /// Draws on from a generator of the CPU, such as sample_generator()'s.
  explicit Random(at::Generator generator) : at::Generator(std::move(generator)) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()();
};

}  // namespace levin
