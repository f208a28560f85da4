// What ppo.cpp does, with LibTorch alone, to measure: the loop, the buffer and the advantages by hand. Only the environment is
// that of the others. cartpole_by_hand [SEED]
#include "cartpole.h"

int main(int argc, char** argv) {
  constexpr std::int64_t kSteps = 32, kEnvironments = 8, kMinibatch = 128, kUpdates = 8'000;
  constexpr double kDiscount = 0.98, kLambda = 0.8, kClip = 0.2;
  const std::uint64_t seed = argc > 1 ? std::stoull(argv[1]) : 1;
  torch::set_num_threads(1);
  torch::manual_seed(seed);
  const auto network = [](std::int64_t outputs) {
    return nn::Sequential(nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, outputs));
  };
  nn::Sequential actor = network(2), critic = network(1);
  std::vector<torch::Tensor> parameters = actor->parameters();
  for (const auto& parameter : critic->parameters()) parameters.push_back(parameter);
  torch::optim::Adam optimizer(parameters, torch::optim::AdamOptions(1e-3));

  std::vector<std::unique_ptr<CartPole>> environments;
  std::vector<torch::Tensor> now;
  for (std::int64_t index = 0; index < kEnvironments; ++index) {
    environments.push_back(std::make_unique<CartPole>(levin::environment_seed(seed, 0, index)));
    now.push_back(environments.back()->reset());
  }
  std::vector<double> returns(kEnvironments, 0), last;
  const auto mean_return = [&] {
    return last.empty() ? 0 : std::accumulate(last.begin(), last.end(), 0.0) / static_cast<double>(last.size());
  };
  const auto floats = [&] { return torch::zeros({kSteps, kEnvironments}); };
  torch::Tensor observations = torch::zeros({kSteps, kEnvironments, 4});
  torch::Tensor actions = torch::zeros({kSteps, kEnvironments}, torch::kLong);
  torch::Tensor log_chances = floats(), values = floats(), rewards = floats(), final_values = floats();
  torch::Tensor terminated = floats(), truncated = floats();
  torch::Tensor observation = torch::stack(now);
  std::int64_t updates = 0, acted = 0;
  double learning = 0;
  const auto begin = std::chrono::steady_clock::now();
  while (updates < kUpdates && mean_return() < 475) {
    for (std::int64_t step = 0; step < kSteps; ++step) {
      const torch::NoGradGuard no_gradients;
      const auto scores = actor->forward(observation).log_softmax(1);
      const auto action = scores.exp().multinomial(1);
      observations[step].copy_(observation);
      actions[step].copy_(action.squeeze(1));
      log_chances[step].copy_(scores.gather(1, action).squeeze(1));
      values[step].copy_(critic->forward(observation).squeeze(1));
      std::vector<torch::Tensor> after;
      bool any_truncated = false;
      for (std::size_t index = 0; index < environments.size(); ++index) {
        const auto at = static_cast<std::int64_t>(index);
        const levin::Transition transition = environments[index]->step(actions[step][at]);
        after.push_back(transition.observation);
        now[index] = transition.observation;
        rewards.mutable_data_ptr<float>()[step * kEnvironments + at] = static_cast<float>(transition.reward);
        terminated.mutable_data_ptr<float>()[step * kEnvironments + at] = transition.terminated ? 1 : 0;
        truncated.mutable_data_ptr<float>()[step * kEnvironments + at] = transition.truncated ? 1 : 0;
        any_truncated |= transition.truncated;
        returns[index] += transition.reward;
        if (!transition.terminated && !transition.truncated) continue;
        last.push_back(std::exchange(returns[index], 0));
        if (last.size() > 100) last.erase(last.begin());
        now[index] = environments[index]->reset();
      }
      if (any_truncated) final_values[step].copy_(critic->forward(torch::stack(after)).squeeze(1));
      observation = torch::stack(now);
      acted += kEnvironments;
    }
    torch::Tensor advantages = floats();
    {
      const torch::NoGradGuard no_gradients;
      const auto last_value = critic->forward(observation).squeeze(1);
      for (std::int64_t at = 0; at < kEnvironments; ++at) {
        double next_value = last_value.const_data_ptr<float>()[at], next_advantage = 0;
        for (std::int64_t step = kSteps - 1; step >= 0; --step) {
          const std::int64_t row = step * kEnvironments + at;
          const bool is_terminated = terminated.const_data_ptr<float>()[row] > 0;
          if (is_terminated || truncated.const_data_ptr<float>()[row] > 0) {
            next_value = is_terminated ? 0 : final_values.const_data_ptr<float>()[row];
            next_advantage = 0;
          }
          const double value = values.const_data_ptr<float>()[row];
          const double delta = rewards.const_data_ptr<float>()[row] + kDiscount * next_value - value;
          next_advantage = delta + kDiscount * kLambda * next_advantage;
          next_value = value;
          advantages.mutable_data_ptr<float>()[row] = static_cast<float>(next_advantage);
        }
      }
    }
    const std::vector<torch::Tensor> all = {observations.flatten(0, 1), actions.flatten(), log_chances.flatten(),
                                            advantages.flatten(), (advantages + values).flatten()};
    const auto learning_begin = std::chrono::steady_clock::now();
    for (int pass = 0; pass < 10; ++pass) {
      const auto order = torch::randperm(kSteps * kEnvironments, torch::kLong);
      for (std::int64_t first = 0; first < order.size(0); first += kMinibatch) {
        const auto index = order.narrow(0, first, kMinibatch);
        std::vector<torch::Tensor> rows;
        for (const auto& tensor : all) rows.push_back(tensor.index_select(0, index));
        const auto scores = actor->forward(rows[0]).log_softmax(1);
        const auto log_chance = scores.gather(1, rows[1].unsqueeze(1)).squeeze(1);
        const auto ratio = (log_chance - rows[2]).exp();
        const auto advantage = (rows[3] - rows[3].mean()) / (rows[3].std() + 1e-8);
        const auto policy_loss = -torch::min(ratio * advantage, ratio.clamp(1 - kClip, 1 + kClip) * advantage).mean();
        const auto value_loss = torch::mse_loss(critic->forward(rows[0]).squeeze(1), rows[4]);
        optimizer.zero_grad();
        (policy_loss + 0.5 * value_loss).backward();
        optimizer.step();
        ++updates;
        const double rate = 1e-3 * (1 - 0.9 * std::min(1.0, static_cast<double>(updates) / kUpdates));
        static_cast<torch::optim::AdamOptions&>(optimizer.param_groups()[0].options()).lr(rate);
      }
    }
    learning += std::chrono::duration<double>(std::chrono::steady_clock::now() - learning_begin).count();
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%ld steps in %.2f s: %.0f a second; an update takes %.1f µs\n", acted, seconds,
              static_cast<double>(acted) / seconds, 1e6 * learning / static_cast<double>(updates));
}
