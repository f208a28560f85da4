#pragma once

#include <levin/levin.h>

#include <chrono>
#include <cmath>
#include <numbers>
#include <numeric>

namespace nn = torch::nn;

/// A pole on a cart that is pushed to the left or to the right, and is to keep it upright: the physics of Barto, Sutton &
/// Anderson 1983 ("Neuronlike adaptive elements that can solve difficult learning control problems"), with the constants and
/// limits of Gymnasium's CartPole-v1. An observation is [x, velocity, angle, angular velocity], an action 0 or 1.
class CartPole : public levin::Environment {
 public:
  explicit CartPole(std::uint64_t seed) : random_(seed) {}

  torch::Tensor reset() override {
    state_ = torch::empty({4}, torch::kDouble).uniform_(-0.05, 0.05, random_);
    steps_ = 0;
    return state_.to(torch::kFloat);
  }

  levin::Transition step(const torch::Tensor& action) override {
    constexpr double kGravity = 9.8, kCart = 1.0, kPole = 0.1, kHalfLength = 0.5, kForce = 10.0, kSeconds = 0.02;
    const double* const now = state_.const_data_ptr<double>();
    const double x = now[0], velocity = now[1], angle = now[2], turn = now[3];
    const double force = action.item<std::int64_t>() == 1 ? kForce : -kForce;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    const double push = (force + kPole * kHalfLength * (turn * turn) * sine) / (kCart + kPole);
    const double turn_change =
        (kGravity * sine - cosine * push) / (kHalfLength * (4.0 / 3.0 - kPole * (cosine * cosine) / (kCart + kPole)));
    const double change = push - kPole * kHalfLength * turn_change * cosine / (kCart + kPole);
    set(x + kSeconds * velocity, velocity + kSeconds * change, angle + kSeconds * turn, turn + kSeconds * turn_change);
    const bool falls = std::abs(now[0]) > 2.4 || std::abs(now[2]) > 12 * 2 * std::numbers::pi / 360;
    return {state_.to(torch::kFloat), 1.0, falls, ++steps_ >= 500};
  }

  /// Of a state that is given, for comparison.
  void set(double x, double velocity, double angle, double turn) {
    double* const now = state_.mutable_data_ptr<double>();
    now[0] = x, now[1] = velocity, now[2] = angle, now[3] = turn;
  }

  levin::KeptState state() const override {
    return {.values = steps_, .tensors = {{"state", state_.clone()}, {"random", random_.get_state()}}};
  }
  void set_state(const levin::KeptState& kept) override {
    steps_ = kept.values.as_int();
    state_ = kept.tensors.at("state").clone();
    random_.set_state(kept.tensors.at("random"));
  }

 private:
  levin::Random random_;
  torch::Tensor state_ = torch::zeros({4}, torch::kDouble);
  std::int64_t steps_ = 0;
};

inline std::unique_ptr<levin::Environment> make_cartpole(std::uint64_t seed) { return std::make_unique<CartPole>(seed); }

/// The options of a Session that both programs have: threads and ranks, and checkpoints to resume from.
inline levin::TrainerOptions cartpole_options(const char* devices, std::int64_t max_steps) {
  return {.max_steps = max_steps,
          .devices = devices,
          .threads = 1,
          .callbacks = {levin::ModelCheckpoint({.save_last = true, .every_n_train_steps = 500})}};
}

/// The mean return of 100 episodes of the policy, which does not explore.
inline double evaluate(levin::Session& session, std::int64_t seed) {
  levin::VectorEnvironment environments(make_cartpole, {.environments = 100, .seed = seed});
  std::vector<double> returns(100, 0);
  for (std::size_t ended = 0; ended < returns.size();) {
    const auto prediction = session.predict({{"observation", environments.observation()}});
    for (const auto& episode : environments.step(prediction["best_action"]).episodes) {
      double& first = returns[static_cast<std::size_t>(episode.environment)];
      if (first == 0) ++ended, first = episode.total_reward;
    }
  }
  return std::accumulate(returns.begin(), returns.end(), 0.0) / 100;
}

/// Saves the weights and evaluates them. Of several ranks, each prints what its weights add up to, and how its environments
/// went.
inline void save_and_evaluate(levin::Session& session, const levin::Module& module, const levin::VectorEnvironment& own) {
  session.save(session.trainer().log_dir() / "checkpoints/end.ckpt");
  if (session.trainer().world_size() > 1) {
    double sum = 0;
    for (const auto& parameter : module.parameters()) sum += parameter.to(torch::kDouble).sum().item<double>();
    std::printf("rank %d: weights %.17g, mean return %.2f\n", session.trainer().rank(), sum, own.mean_return());
  }
  if (session.trainer().is_global_zero()) std::printf("mean return of 100 episodes: %.1f\n", evaluate(session, 1'000'003));
}

/// Environment steps a second since it was made.
class Speed {
 public:
  void print(std::int64_t steps) const {
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    std::printf("%lld steps in %.2f s: %.0f a second\n", static_cast<long long>(steps), seconds.count(),
                static_cast<double>(steps) / seconds.count());
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};
