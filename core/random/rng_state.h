#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace levin {

/// From here on this process also computes on a device with random numbers of its own (Accelerator::generator), or, unset, no
/// longer does. Snapshots, scopes and seeds hold for them too. `seed`: of seed_everything(), where that came before the device
/// was known; a generator that was in use already goes on.
void use_device_generator(const std::optional<at::Generator>& generator, std::optional<std::uint64_t> seed);
/// The CPU's generator, the device's, and those of named streams. What at::manual_seed() asks beside that must not be asked
/// before a device's library is loaded: LibTorch remembers for ever that there was none.
void seed_generators(std::uint64_t seed);

/// A stream of random numbers that a program asks for by name: Trainer::shared_generator(), and rank_generator() of each rank.
using RandomStream = std::uint32_t;
inline constexpr RandomStream kSharedStream = 0;
inline RandomStream stream_of_rank(int rank) { return static_cast<RandomStream>(rank) + 1; }
/// The seed of a stream, where the default generator's is `seed`: other than that, and than the other streams', in the 32 bits
/// that LibTorch's CPU generators use. Those of seeds that lie near one another are as far apart.
std::uint64_t stream_seed(std::uint64_t seed, RandomStream stream);
/// This process's generator of a stream: always the same one, made when it is first asked for. Threading: training's thread.
at::Generator stream_generator(RandomStream stream);

/// What the seeds of streams are made of, that of seed_generators() or LibTorch's default: RandomStates' seed.
at::Tensor seed_state();

/// States of a process's generators as bytes, by name: cpu, device, own (of the rank) and shared, where they were asked for;
/// and seed: that of streams, for those that were not.
using RandomStates = std::map<std::string, at::Tensor>;
/// Puts back those that are given. A stream that is not given begins anew. Throws IoError when the bytes are no state.
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

  // Bytes, which nobody changes: copies share them.
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
