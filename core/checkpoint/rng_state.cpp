#include "levin/core/checkpoint/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <string>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/error.h"

namespace levin {
namespace {

std::string key_of(int rank) { return "rng." + std::to_string(rank) + ".cpu"; }

}  // namespace

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
    throw IoError(std::string("The saved state of the random number generator is not valid: ") +
                  error.what_without_backtrace());
  }
}

void save_rng_state(int rank, const at::Tensor& state, Checkpoint& checkpoint) { checkpoint.tensors[key_of(rank)] = state; }

bool load_rng_state(int rank, const Checkpoint& checkpoint) {
  const auto state = checkpoint.tensors.find(key_of(rank));
  if (state == checkpoint.tensors.end()) return false;
  set_rng_state(state->second);
  return true;
}

}  // namespace levin
