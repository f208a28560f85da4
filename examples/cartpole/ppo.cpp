// Proximal policy optimization (Schulman et al. 2017) on CartPole: cartpole_ppo [SEED [DEVICES [CHECKPOINT]]]
#include "cartpole.h"

constexpr std::int64_t kUpdates = 8'000;

/// An actor and a critic.
class Ppo : public levin::Module {
 public:
  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    const auto scores = actor_->forward(batch["observation"]).log_softmax(1);
    const auto action = scores.exp().multinomial(1, /*replacement=*/false, rank_generator());
    return {{"action", action.squeeze(1)},
            {"log_chance", scores.gather(1, action).squeeze(1)},
            {"value", critic_->forward(batch["observation"]).squeeze(1)},
            {"best_action", scores.argmax(1)}};
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto scores = actor_->forward(batch["observation"]).log_softmax(1);
    const auto log_chance = scores.gather(1, batch["action"].unsqueeze(1)).squeeze(1);
    const auto ratio = (log_chance - batch["log_chance"]).exp();
    const auto advantage = (batch["advantage"] - batch["advantage"].mean()) / (batch["advantage"].std() + 1e-8);
    const auto policy_loss = -torch::min(ratio * advantage, ratio.clamp(1 - kClip, 1 + kClip) * advantage).mean();
    const auto value_loss = torch::mse_loss(critic_->forward(batch["observation"]).squeeze(1), batch["return"]);
    log("policy_loss", policy_loss);
    log("value_loss", value_loss);
    return policy_loss + 0.5 * value_loss;
  }

  levin::OptimizerSetups configure_optimizers() override {
    return {levin::Adam(parameters(), 1e-3),
            levin::LinearLr::Options{.start_factor = 1, .end_factor = 0.1, .total_iters = kUpdates},
            {.interval = levin::Interval::kStep}};
  }

 private:
  static constexpr double kClip = 0.2;
  static nn::Sequential network(std::int64_t outputs) {
    return nn::Sequential(nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(), nn::Linear(64, outputs));
  }
  nn::Sequential actor_ = register_module("actor", network(2));
  nn::Sequential critic_ = register_module("critic", network(1));
};

int main(int argc, char** argv) {
  return levin::run_main([&] {
    levin::seed_everything(argc > 1 ? std::stoull(argv[1]) : 1);
    Ppo module;
    levin::Session session(cartpole_options(argc > 2 ? argv[2] : "1", kUpdates), module);
    levin::VectorEnvironment environments(make_cartpole, {.environments = 8, .rank = session.trainer().rank()});
    levin::RolloutBuffer rollout({.steps = 32, .environments = 8, .gamma = 0.98, .gae_lambda = 0.8});
    session.keep("environments", environments.kept());
    session.keep("rollout", rollout.kept());
    session.begin(argc > 3 ? std::optional<std::string>(argv[3]) : std::nullopt);
    const auto value_of = [&](const torch::Tensor& observation) {
      return session.predict({{"observation", observation}})["value"];
    };

    const Speed speed;
    for (bool stops = session.should_stop(); !stops;) {
      while (!rollout.is_full()) {
        const auto observation = environments.observation();
        const auto chosen = session.predict({{"observation", observation}});
        const auto step = environments.step(chosen["action"]);
        levin::Batch rows = {{"observation", observation}, {"action", chosen["action"]}, {"log_chance", chosen["log_chance"]},
                             {"value", chosen["value"]},   {"reward", step.reward},      {"terminated", step.terminated},
                             {"truncated", step.truncated}};
        if (step.truncated.any().item<bool>()) rows.set("final_value", value_of(step.next_observation));
        rollout.add(rows);
        if (rollout.is_full()) rollout.finish(value_of(step.observation));
      }
      if (environments.mean_return() >= 475) session.stop("solved");
      for (const levin::Batch& minibatch : rollout.minibatches(128, 10)) {
        const auto result = session.step(minibatch, [&](const levin::Batch& batch) {
          environments.log_episodes(module);
          return module.training_step(batch, 0);
        });
        stops = result.stops;
        if (stops) break;
      }
    }
    speed.print(environments.steps());
    save_and_evaluate(session, module, environments);
    session.end();
  });
}
