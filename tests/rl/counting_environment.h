#pragma once

#include <levin/levin.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace levin::test {

/// Counts its steps, adds a random number to each observation, and ends an episode by its own length: environment seeds decide
/// on both. Actions count, too.
class CountingEnvironment : public Environment {
 public:
  explicit CountingEnvironment(std::uint64_t seed) : seed_(static_cast<std::int64_t>(seed & 0xffff)), random_(seed) {}
  at::Tensor reset() override {
    step_ = 0;
    ++episode_;
    return observe();
  }
  Transition step(const at::Tensor& action) override {
    ++step_;
    sum_ += action.item<double>();
    const std::int64_t length = 2 + (seed_ + episode_) % 3;
    return {observe(), sum_, step_ == length && episode_ % 2 == 0, step_ == length && episode_ % 2 == 1};
  }
  KeptState state() const override {
    return {.values = Value::Map{{"seed", seed_}, {"step", step_}, {"episode", episode_}, {"sum", sum_}},
            .tensors = {{"random", random_.get_state()}}};
  }
  void set_state(const KeptState& state) override {
    seed_ = state.values.at("seed").as_int();
    step_ = state.values.at("step").as_int();
    episode_ = state.values.at("episode").as_int();
    sum_ = state.values.at("sum").as_double();
    random_.set_state(state.tensors.at("random"));
  }

 private:
  at::Tensor observe() {
    return torch::tensor({static_cast<double>(episode_), static_cast<double>(step_), torch::rand({}, random_).item<double>()});
  }

  std::int64_t seed_;
  Random random_;
  std::int64_t step_ = 0, episode_ = 0;
  double sum_ = 0;
};

inline std::unique_ptr<Environment> counting(std::uint64_t seed) { return std::make_unique<CountingEnvironment>(seed); }

/// What a checkpoint has of a state: later changes do not reach it.
inline KeptState copy_of(const KeptState& state) {
  KeptState copy{.values = state.values};
  for (const auto& [name, tensor] : state.tensors) copy.tensors[name] = tensor.clone();
  return copy;
}

inline bool same(const Batch& one, const Batch& other) {
  return std::ranges::equal(one.items(), other.items(),
                            [](const auto& a, const auto& b) { return a.first == b.first && a.second.equal(b.second); });
}

}  // namespace levin::test
