#include "levin/core/checkpoint/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

namespace {

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator& generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& error) {
    throw IoError(format("The saved state of the random number generator is not valid: {}", error.what_without_backtrace()));
  }
}

void seed(at::Generator& generator, std::uint64_t number) {
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(number);
}

/// As LibTorch's generators, it belongs to the process.
std::optional<at::Generator>& device_generator() {
  static std::optional<at::Generator> generator;
  return generator;
}

}  // namespace

at::Tensor rng_state() { return state_of(at::detail::getDefaultCPUGenerator()); }

void set_rng_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  set_state(generator, state);
}

void use_device_generator(const std::optional<at::Generator>& generator, std::optional<std::uint64_t> number) {
  if (generator == device_generator()) return;
  device_generator() = generator;
  if (number && generator) seed(*device_generator(), *number);
}

void seed_generators(std::uint64_t number) {
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  seed(cpu, number);
  if (device_generator()) seed(*device_generator(), number);
}

at::Tensor device_rng_state() { return device_generator() ? state_of(*device_generator()) : at::Tensor(); }

void set_device_rng_state(const at::Tensor& state) {
  if (device_generator()) set_state(*device_generator(), state);
}

RandomSnapshot RandomSnapshot::take() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator);
  RandomSnapshot snapshot(source->engine());
  snapshot.next_float_ = source->next_float_normal_sample();
  snapshot.next_double_ = source->next_double_normal_sample();
  snapshot.device_ = device_rng_state();
  return snapshot;
}

void RandomSnapshot::restore() const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  put_into(*at::check_generator<at::CPUGeneratorImpl>(generator));
  if (device_.defined()) set_device_rng_state(device_);
}

at::Tensor RandomSnapshot::state() const {
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>();
  put_into(*at::check_generator<at::CPUGeneratorImpl>(generator));
  return generator.get_state();
}

void RandomSnapshot::put_into(at::CPUGeneratorImpl& generator) const {
  generator.set_engine(engine_);
  generator.set_next_float_normal_sample(next_float_);
  generator.set_next_double_normal_sample(next_double_);
}

}  // namespace levin
