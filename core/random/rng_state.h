#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace levin {

/// Sets the generator of this process's device (Accelerator::generator); unset: none. Snapshots, scopes and seeds then include
/// it. `seed`: of seed_everything(), if that came before the device was known; a generator that was in use already continues.
void use_device_generator(const std::optional<at::Generator>& generator, std::optional<std::uint64_t> seed);
/// The CPU's generator, the device's, and those of named streams. Do not use at::manual_seed() before a device's library is
/// loaded: LibTorch remembers that there was no device.
void seed_generators(std::uint64_t seed);

/// A stream of random numbers that a program gets by name: Trainer::shared_generator(), and rank_generator() of each rank.
using RandomStream = std::uint32_t;
inline constexpr RandomStream kSharedStream = 0;
inline RandomStream stream_of_rank(int rank) { return static_cast<RandomStream>(rank) + 1; }
/// The seed of a stream, where the default generator's is `seed`: other than that, and than the other streams', in the 32 bits
/// that LibTorch's CPU generators use. Those of seeds that lie near one another are as far apart.
std::uint64_t stream_seed(std::uint64_t seed, RandomStream stream);
/// This process's generator of a stream: always the same one, made at its first use. Threading: training's thread.
at::Generator stream_generator(RandomStream stream);

/// What the seeds of streams are made of, that of seed_generators() or LibTorch's default: RandomStates' seed.
at::Tensor seed_state();

/// States of a process's generators as bytes, by name: cpu, device, own (of the rank) and shared, where they were used;
/// and seed: that of streams, for those that were not.
using RandomStates = std::map<std::string, at::Tensor>;
/// Restores the given ones. A stream that is not given restarts. Throws IoError when the bytes are not a state.
void set_random_states(const RandomStates& states, int rank);

/// The state of the device's generator, as bytes. Undefined when there is none.
at::Tensor device_rng_state();

/// The state of this process's generators at some moment: taken at each step.
class RandomSnapshot {
 public:
  /// As it is now.
  static RandomSnapshot take() { return RandomSnapshot(); }
  void restore() const;
  RandomStates states(int rank) const;

 private:
  RandomSnapshot();

  // Bytes that never change: copies share them.
  at::Tensor cpu_;
  at::Tensor device_;  ///< undefined when there is none
  std::map<RandomStream, at::Tensor> streams_;
};

/// Puts random numbers back to where they were when the scope began.
class RandomScope {
 public:
  RandomScope() : before_(RandomSnapshot::take()) {}
  ~RandomScope() { before_.restore(); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomSnapshot before_;
};

}  // namespace levin
