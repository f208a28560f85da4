#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace at {
struct CPUGeneratorImpl;
}

namespace levin {

/// The state of this process's CPU generator, as bytes: what a rank sends to rank 0 for the checkpoint.
at::Tensor rng_state();
/// Throws IoError when the bytes are no generator's state.
void set_rng_state(const at::Tensor& state);

/// From here on this process also computes on a device with random numbers of its own (Accelerator::generator), or, unset, no
/// longer does. Snapshots, scopes and seeds hold for them too. `seed`: of seed_everything(), where that came before the device
/// was known; a generator that was in use already goes on.
void use_device_generator(const std::optional<at::Generator>& generator, std::optional<std::uint64_t> seed);
/// The CPU's generator, and the device's. What at::manual_seed() asks beside that must not be asked before a device's library
/// is loaded: LibTorch remembers for ever that there was none.
void seed_generators(std::uint64_t seed);
/// The state of the device's generator, as bytes. Undefined when there is none.
at::Tensor device_rng_state();
/// Throws IoError when the bytes are no state of this generator. Without a device generator, nothing.
void set_device_rng_state(const at::Tensor& state);

/// The state of this process's generators at some moment, for the CPU's at a tenth of rng_state()'s cost: taken at each step.
class RandomSnapshot {
 public:
  /// As it is now.
  static RandomSnapshot take();
  void restore() const;
  /// What rng_state() gave at that moment.
  at::Tensor state() const;
  /// What device_rng_state() gave at that moment.
  const at::Tensor& device_state() const { return device_; }

 private:
  explicit RandomSnapshot(at::mt19937 engine) : engine_(engine) {}
  void put_into(at::CPUGeneratorImpl& generator) const;

  at::mt19937 engine_;
  std::optional<float> next_float_;  ///< normally distributed numbers come in pairs
  std::optional<double> next_double_;
  at::Tensor device_;
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
