#include "levin/rl/vector_environment.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/worker.h"
#include "levin/core/module.h"
#include "levin/rl/random_numbers.h"
#include "levin/rl/rows.h"

namespace levin {

namespace {

/// The finalizer of MurmurHash3: a permutation of 32 bits.
std::uint32_t mix_32(std::uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85ebca6bU;
  bits = (bits ^ (bits >> 13)) * 0xc2b2ae35U;
  return bits ^ (bits >> 16);
}

/// The numbers of episodes as a tensor, for a checkpoint.
template <class Number, class Items, class Member>
at::Tensor column(const Items& items, Member member) {
  std::vector<Number> numbers;
  for (const auto& item : items) numbers.push_back(item.*member);
  return at::tensor(numbers);
}

}  // namespace

struct VectorEnvironment::Slot {
  std::int64_t index = 0;
  std::unique_ptr<Environment> environment;
  Transition transition;    ///< of the last step
  at::Tensor first;         ///< of the episode that has begun in it
  double total_reward = 0;  ///< of the episode under way
  std::int64_t length = 0;
  std::exception_ptr error;

  at::Tensor last;  ///< what the last step led to
};

void VectorEnvironmentOptions::declare(OptionList<VectorEnvironmentOptions>& options) {
  using O = VectorEnvironmentOptions;
  options.add(&O::environments, "Environments that step together").min(1).max(1 << 20);
  options.add(&O::threads, "Threads that step them; 0: the caller's").min(0);
  options.add(&O::seed, "Seed of the environments; null: that of seed_everything");
  options.add(&O::rank, "This rank: each has other environments").min(0);
  options.add(&O::window, "Episodes that the means are of").min(1);
}

std::uint64_t environment_seed(std::uint64_t seed, int rank, std::int64_t environment) {
  const std::uint64_t start = RandomNumbers::mix(seed + 0x9e3779b97f4a7c15ULL);
  const auto of_rank = static_cast<std::uint32_t>(rank);
  const std::uint32_t index = (of_rank << 20) + static_cast<std::uint32_t>(environment);
  const std::uint32_t high = mix_32(of_rank + static_cast<std::uint32_t>(start >> 32));
  return (std::uint64_t{high} << 32) | mix_32(index + static_cast<std::uint32_t>(start));
}

VectorEnvironment::VectorEnvironment(const EnvironmentFactory& factory, Options options)
    : options_(checked("VectorEnvironment", options)), slots_(static_cast<std::size_t>(options_.environments)) {
  const std::uint64_t seed = chosen_seed(options_.seed);
  for (std::size_t index = 0; index < slots_.size(); ++index) {
    slots_[index].index = static_cast<std::int64_t>(index);
    slots_[index].environment = factory ? factory(environment_seed(seed, options_.rank, slots_[index].index)) : nullptr;
    if (!slots_[index].environment) throw MisuseError("VectorEnvironment: the factory gives no environment.");
  }
  const int threads = std::min<int>(options_.threads, static_cast<int>(options_.environments));
  const int of_caller = at::get_num_threads();
  for (int thread = 0; thread < threads; ++thread) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->add([] {
      // Parallelism is between environments. A thread's first parallel call sets its number: before ours.
      (void)at::get_num_threads();
      at::internal::lazy_init_num_threads();
      at::set_num_threads(1);
      at::GradMode::set_enabled(false);
    });
    workers_.back()->wait();
  }
  // at::set_num_threads also sets the number that threads started later begin with.
  if (threads > 0) at::set_num_threads(of_caller);
}

VectorEnvironment::~VectorEnvironment() = default;

void VectorEnvironment::for_each(const char* call, const std::function<void(Slot&)>& work) {
  const at::NoGradGuard no_gradients;
  const auto guarded = [&work](Slot& slot) {
    try {
      work(slot);
    } catch (...) {
      slot.error = std::current_exception();
    }
  };
  if (workers_.empty()) {
    std::for_each(slots_.begin(), slots_.end(), guarded);
  } else {
    std::atomic<std::size_t> next = 0;
    const auto share = [&] {
      for (std::size_t index = next++; index < slots_.size(); index = next++) guarded(slots_[index]);
    };
    for (const std::unique_ptr<Worker>& worker : workers_) worker->add(share);
    for (const std::unique_ptr<Worker>& worker : workers_) worker->wait();
  }
  std::exception_ptr first;
  std::int64_t environment = 0;
  for (Slot& slot : slots_) {
    std::exception_ptr error = std::exchange(slot.error, nullptr);
    if (!error || first) continue;
    first = std::move(error);
    environment = slot.index;
  }
  if (!first) return;
  observation_ = at::Tensor();
  try {
    std::rethrow_exception(first);
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(format("{}() of environment {} of {}, rank {}, failed: {}", call, environment, size(),
                                        options_.rank, error_text(error)),
                                 exit_code_of(error)));
  }
}

at::Tensor VectorEnvironment::stack(const char* call, at::Tensor Slot::*observation) const {
  std::vector<at::Tensor> rows;
  rows.reserve(slots_.size());
  for (const Slot& slot : slots_) {
    const at::Tensor& row = slot.*observation;
    const bool fits = row.defined() && (rows.empty() || (row.sizes() == rows[0].sizes() && row.dtype() == rows[0].dtype()));
    if (!fits) {
      throw MisuseError(format("{}() of environment {} gives an observation {}; that of environment 0 is {}.", call, slot.index,
                               row.defined() ? form_of_rows(row) : "without content",
                               rows.empty() ? "without content, too" : form_of_rows(rows[0])));
    }
    rows.push_back(row);
  }
  return at::stack(rows);
}

at::Tensor VectorEnvironment::reset() {
  for_each("reset", [](Slot& slot) {
    slot.last = slot.environment->reset();
    slot.total_reward = 0;
    slot.length = 0;
  });
  observation_ = stack("reset", &Slot::last);
  return observation_;
}

const at::Tensor& VectorEnvironment::observation() {
  if (!observation_.defined()) reset();
  return observation_;
}

VectorStep VectorEnvironment::step(const at::Tensor& actions) {
  if (!observation_.defined()) throw MisuseError("VectorEnvironment::step(): call reset() or observation() first.");
  if (actions.dim() == 0 || actions.size(0) != size()) {
    throw MisuseError(format("VectorEnvironment::step(): actions of shape {} for {} environments: one row each.",
                             c10::str(actions.sizes()), size()));
  }
  const std::vector<at::Tensor> each = actions.detach().to(at::kCPU).unbind(0);
  for_each("step", [&each](Slot& slot) {
    slot.transition = slot.environment->step(each[static_cast<std::size_t>(slot.index)]);
    slot.last = slot.first = slot.transition.observation;
    slot.total_reward += slot.transition.reward;
    ++slot.length;
    if (slot.transition.terminated || slot.transition.truncated) slot.first = slot.environment->reset();
  });
  steps_ += size();
  VectorStep result;
  const at::NoGradGuard no_gradients;
  result.next_observation = stack("step", &Slot::last);
  result.reward = at::empty({size()}, at::kFloat);
  result.terminated = at::empty({size()}, at::kBool);
  result.truncated = at::empty({size()}, at::kBool);
  float* const reward = result.reward.mutable_data_ptr<float>();
  bool* const terminated = result.terminated.mutable_data_ptr<bool>();
  bool* const truncated = result.truncated.mutable_data_ptr<bool>();
  for (Slot& slot : slots_) {
    const Transition& transition = slot.transition;
    reward[slot.index] = static_cast<float>(transition.reward);
    terminated[slot.index] = transition.terminated;
    truncated[slot.index] = transition.truncated;
    if (!transition.terminated && !transition.truncated) continue;
    result.episodes.push_back({slot.index, std::exchange(slot.total_reward, 0), std::exchange(slot.length, 0)});
    add_to_window(result.episodes.back());
  }
  observation_ = result.episodes.empty() ? result.next_observation : stack("reset", &Slot::first);
  result.observation = observation_;
  return result;
}

void VectorEnvironment::add_to_window(const FinishedEpisode& episode) {
  ++finished_;
  last_.push_back(episode);
  if (static_cast<std::int64_t>(last_.size()) > options_.window) last_.pop_front();
}

double VectorEnvironment::mean_return() const {
  if (last_.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const FinishedEpisode& episode : last_) sum += episode.total_reward;
  return sum / static_cast<double>(last_.size());
}

double VectorEnvironment::mean_length() const {
  if (last_.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::int64_t sum = 0;
  for (const FinishedEpisode& episode : last_) sum += episode.length;
  return static_cast<double>(sum) / static_cast<double>(last_.size());
}

void VectorEnvironment::log_episodes(Module& module, const LogOptions& options) const {
  if (last_.empty()) return;
  module.log("episode_return", mean_return(), options);
  module.log("episode_length", mean_length(), options);
}

KeptFunctions VectorEnvironment::kept() {
  return {[this] { return state(); }, [this](const KeptState& state) { set_state(state); }};
}

// values: environments: a list of their values; finished; steps
// tensors: I_NAME of environment I; observation; total_reward, length: of the episodes under way; last_…: the window's episodes
KeptState VectorEnvironment::state() const {
  KeptState state{.values = Value::Map{}};
  Value& environments = state.values["environments"] = Value::List{};
  for (const Slot& slot : slots_) {
    KeptState own = slot.environment->state();
    environments.push_back(std::move(own.values));
    for (auto& [name, tensor] : own.tensors) state.tensors[format("{}_{}", slot.index, name)] = std::move(tensor);
  }
  state.values["finished"] = finished_;
  state.values["steps"] = steps_;
  state.tensors["total_reward"] = column<double>(slots_, &Slot::total_reward);
  state.tensors["length"] = column<std::int64_t>(slots_, &Slot::length);
  if (observation_.defined()) state.tensors["observation"] = observation_;
  if (!last_.empty()) {
    state.tensors["last_environment"] = column<std::int64_t>(last_, &FinishedEpisode::environment);
    state.tensors["last_total_reward"] = column<double>(last_, &FinishedEpisode::total_reward);
    state.tensors["last_length"] = column<std::int64_t>(last_, &FinishedEpisode::length);
  }
  return state;
}

void VectorEnvironment::set_state(const KeptState& state) {
  const Value::List& environments = state.values.at("environments").as_list();
  if (environments.size() != slots_.size()) {
    throw ConfigError(
        format("The checkpoint has {} environments, and this VectorEnvironment {}.", environments.size(), size()));
  }
  for (Slot& slot : slots_) {
    KeptState own{.values = environments[static_cast<std::size_t>(slot.index)]};
    const std::string prefix = format("{}_", slot.index);
    for (const auto& [name, tensor] : state.tensors) {
      if (name.starts_with(prefix)) own.tensors[name.substr(prefix.size())] = tensor;
    }
    slot.environment->set_state(own);
    slot.total_reward = state.tensors.at("total_reward")[slot.index].item<double>();
    slot.length = state.tensors.at("length")[slot.index].item<std::int64_t>();
  }
  finished_ = state.values.at("finished").as_int();
  steps_ = state.values.at("steps").as_int();
  const auto observation = state.tensors.find("observation");
  observation_ = observation == state.tensors.end() ? at::Tensor() : observation->second.clone();
  last_.clear();
  const auto found = state.tensors.find("last_length");
  const std::int64_t episodes = found == state.tensors.end() ? 0 : found->second.numel();
  for (std::int64_t index = 0; index < episodes; ++index) {
    last_.push_back({state.tensors.at("last_environment")[index].item<std::int64_t>(),
                     state.tensors.at("last_total_reward")[index].item<double>(), found->second[index].item<std::int64_t>()});
  }
}

}  // namespace levin
