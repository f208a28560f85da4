#include "levin/core/checkpoint/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <string>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

at::Tensor rng_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_rng_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& error) {
    throw IoError(format("The saved state of the random number generator is not valid: {}", error.what_without_backtrace()));
  }
}

RandomSnapshot RandomSnapshot::take() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto* source = at::check_generator<at::CPUGeneratorImpl>(generator);
  RandomSnapshot snapshot(source->engine());
  snapshot.next_float_ = source->next_float_normal_sample();
  snapshot.next_double_ = source->next_double_normal_sample();
  return snapshot;
}

void RandomSnapshot::restore() const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  put_into(*at::check_generator<at::CPUGeneratorImpl>(generator));
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
