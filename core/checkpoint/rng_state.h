#pragma once

#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Tensor.h>

#include <optional>

namespace at {
struct CPUGeneratorImpl;
}

namespace levin {

/// The state of this process's CPU generator, as bytes: what a rank sends to rank 0 for the checkpoint.
at::Tensor rng_state();
/// Throws IoError when the bytes are no generator's state.
void set_rng_state(const at::Tensor& state);

/// The state of this process's CPU generator at some moment, at a tenth of rng_state()'s cost: taken at each step.
class RandomSnapshot {
 public:
  /// As it is now.
  static RandomSnapshot take();
  void restore() const;
  /// What rng_state() gave at that moment.
  at::Tensor state() const;

 private:
  explicit RandomSnapshot(at::mt19937 engine) : engine_(engine) {}
  void put_into(at::CPUGeneratorImpl& generator) const;

  at::mt19937 engine_;
  std::optional<float> next_float_;  ///< normally distributed numbers come in pairs
  std::optional<double> next_double_;
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
