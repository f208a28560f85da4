#include "levin/core/random/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/item.h>
#include <ATen/ops/scalar_tensor.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/random/seed.h"

namespace levin {

namespace {

at::Tensor state_of(at::Generator generator) {
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  const std::lock_guard lock(generator.mutex());
  try {
    generator.set_state(state);
  } catch (const c10::Error& error) {
    throw IoError(format("The saved state of the random number generator is not valid: {}", error.what_without_backtrace()));
  }
}

void seed(at::Generator generator, std::uint64_t number) {
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(number);
}

/// As LibTorch's generators, it belongs to the process. Never destroyed, as others below: training may outlive static objects.
std::optional<at::Generator>& device_generator() {
  static auto& generator = *new std::optional<at::Generator>;
  return generator;
}

/// The generators of streams that were used, and what the seeds of all are made of.
struct NamedStreams {
  std::recursive_mutex mutex;  ///< several Trainers may run at once
  std::uint64_t seed = c10::default_rng_seed_val;
  std::map<RandomStream, at::Generator> generators;
};

NamedStreams& named_streams() {
  static auto& streams = *new NamedStreams;
  return streams;
}

std::optional<std::uint64_t> last_seed;

void begin_anew(const std::pair<const RandomStream, at::Generator>& stream) {
  seed(stream.second, stream_seed(named_streams().seed, stream.first));
}

constexpr const char* kCpu = "cpu";
constexpr const char* kDevice = "device";
constexpr const char* kOwn = "own";
constexpr const char* kShared = "shared";
constexpr const char* kSeed = "seed";

std::array<std::pair<const char*, RandomStream>, 2> named_by(int rank) {
  return {{{kOwn, stream_of_rank(rank)}, {kShared, kSharedStream}}};
}

}  // namespace

void use_device_generator(const std::optional<at::Generator>& generator, std::optional<std::uint64_t> number) {
  if (generator == device_generator()) return;
  device_generator() = generator;
  if (number && generator) seed(*device_generator(), *number);
}

void seed_generators(std::uint64_t number) {
  seed(at::detail::getDefaultCPUGenerator(), number);
  if (device_generator()) seed(*device_generator(), number);
  const std::lock_guard lock(named_streams().mutex);
  named_streams().seed = number;
  for (const auto& stream : named_streams().generators) begin_anew(stream);
}

std::uint64_t seed_everything(std::uint64_t seed) {
  seed_generators(seed);
  std::srand(static_cast<unsigned>(seed));
  last_seed = seed;
  return seed;
}

std::optional<std::uint64_t> global_seed() { return last_seed; }

std::uint64_t stream_seed(std::uint64_t seed, RandomStream stream) {
  // An odd number, so that it takes 2^32 streams to come back to the seed; and one whose multiples spread evenly.
  constexpr std::uint32_t kGoldenRatio = 0x9e3779b9;
  return static_cast<std::uint32_t>(seed) + (stream + 1) * kGoldenRatio;
}

at::Generator stream_generator(RandomStream stream) {
  const std::lock_guard lock(named_streams().mutex);
  auto& generators = named_streams().generators;
  const auto found = generators.find(stream);
  if (found != generators.end()) return found->second;
  const std::uint64_t seed = stream_seed(named_streams().seed, stream);
  return generators.emplace(stream, at::make_generator<at::CPUGeneratorImpl>(seed)).first->second;
}

at::Tensor seed_state() { return at::scalar_tensor(static_cast<std::int64_t>(named_streams().seed), at::kLong); }

void set_random_states(const RandomStates& states, int rank) {
  const auto given = [&](const char* name) {
    const auto found = states.find(name);
    return found == states.end() ? at::Tensor() : found->second;
  };
  if (const at::Tensor state = given(kCpu); state.defined()) set_state(at::detail::getDefaultCPUGenerator(), state);
  if (const at::Tensor state = given(kDevice); state.defined() && device_generator()) set_state(*device_generator(), state);
  const std::lock_guard lock(named_streams().mutex);
  if (const at::Tensor seed = given(kSeed); seed.defined())
    named_streams().seed = static_cast<std::uint64_t>(seed.item<std::int64_t>());
  for (const auto& stream : named_streams().generators) begin_anew(stream);
  for (const auto& [name, stream] : named_by(rank)) {
    const at::Tensor state = given(name);
    if (state.defined()) set_state(stream_generator(stream), state);
  }
}

at::Tensor device_rng_state() { return device_generator() ? state_of(*device_generator()) : at::Tensor(); }

RandomSnapshot::RandomSnapshot() : cpu_(state_of(at::detail::getDefaultCPUGenerator())), device_(device_rng_state()) {
  const std::lock_guard lock(named_streams().mutex);
  for (const auto& [stream, generator] : named_streams().generators) streams_.emplace(stream, state_of(generator));
}

void RandomSnapshot::restore() const {
  set_state(at::detail::getDefaultCPUGenerator(), cpu_);
  if (device_.defined() && device_generator()) set_state(*device_generator(), device_);
  const std::lock_guard lock(named_streams().mutex);
  for (const auto& stream : named_streams().generators) {
    const auto before = streams_.find(stream.first);
    before == streams_.end() ? begin_anew(stream) : set_state(stream.second, before->second);
  }
}

RandomStates RandomSnapshot::states(int rank) const {
  RandomStates states{{kCpu, cpu_}};
  if (device_.defined()) states[kDevice] = device_;
  for (const auto& [name, stream] : named_by(rank)) {
    if (const auto found = streams_.find(stream); found != streams_.end()) states[name] = found->second;
  }
  return states;
}

}  // namespace levin
