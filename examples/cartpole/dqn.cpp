// Deep Q-learning with a double network (van Hasselt et al. 2016) on CartPole: cartpole_dqn [SEED [DEVICES [CHECKPOINT]]]
#include "cartpole.h"

constexpr std::int64_t kUpdates = 20'000;

/// The value of each action, and a copy of the network that follows it slowly.
class Dqn : public levin::Module {
 public:
  Dqn() {
    for (auto& parameter : target_->parameters()) parameter.requires_grad_(false);
    update_target(1);
  }

  levin::Batch predict_step(const levin::Batch& batch, std::int64_t) override {
    const auto best = network_->forward(scaled(batch["observation"])).argmax(1);
    const auto random = torch::rand({best.size(0), 2}, rank_generator());
    const double explores = std::max(0.02, 1 - static_cast<double>(global_step()) / 3'000);
    return {{"action", torch::where(random.select(1, 0) < explores, (random.select(1, 1) * 2).to(torch::kLong), best)},
            {"best_action", best}};
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    torch::Tensor goal;
    {
      const torch::NoGradGuard no_gradients;
      const auto best = network_->forward(scaled(batch["next_observation"])).argmax(1, /*keepdim=*/true);
      const auto future = target_->forward(scaled(batch["next_observation"])).gather(1, best).squeeze(1);
      goal = batch["reward"] + kDiscount * future * batch["terminated"].logical_not();
    }
    const auto value = network_->forward(scaled(batch["observation"])).gather(1, batch["action"].unsqueeze(1)).squeeze(1);
    const auto loss = torch::mse_loss(value, goal);
    log("loss", loss);
    return loss;
  }

  void on_train_batch_end(const levin::StepOutput&, const levin::Batch&, std::int64_t) override { update_target(0.01); }

  levin::OptimizerSetups configure_optimizers() override {
    return {levin::Adam(network_->parameters(), 5e-4),
            levin::LinearLr::Options{.start_factor = 1, .end_factor = 0.01, .total_iters = kUpdates},
            {.interval = levin::Interval::kStep}};
  }

 private:
  static constexpr double kDiscount = 0.98;
  static nn::Sequential network() {
    return nn::Sequential(nn::Linear(4, 128), nn::ReLU(), nn::Linear(128, 128), nn::ReLU(), nn::Linear(128, 2));
  }
  /// To about [-1, 1].
  static torch::Tensor scaled(const torch::Tensor& observation) {
    return observation * torch::tensor({0.4F, 0.5F, 5.0F, 0.5F}, observation.device());
  }
  void update_target(double share) {
    const torch::NoGradGuard no_gradients;
    const auto from = network_->parameters(), to = target_->parameters();
    for (std::size_t index = 0; index < to.size(); ++index) to[index].lerp_(from[index], share);
  }

  nn::Sequential network_ = register_module("network", network());
  nn::Sequential target_ = register_module("target", network());
};

int main(int argc, char** argv) {
  return levin::run_main([&] {
    levin::seed_everything(argc > 1 ? std::stoull(argv[1]) : 1);
    Dqn module;
    levin::Session session(cartpole_options(argc > 2 ? argv[2] : "1", kUpdates), module);
    levin::VectorEnvironment environments(make_cartpole, {.environments = 8, .rank = session.trainer().rank()});
    levin::ReplayBuffer replay({.capacity = 200'000});
    session.keep("environments", environments.kept());
    session.keep("replay", replay.kept());
    session.begin(argc > 3 ? std::optional<std::string>(argv[3]) : std::nullopt);

    const Speed speed;
    for (bool stops = session.should_stop(); !stops;) {
      const auto observation = environments.observation();
      const auto action = session.predict({{"observation", observation}})["action"];
      const auto step = environments.step(action);
      replay.add({{"observation", observation},
                  {"action", action},
                  {"reward", step.reward},
                  {"next_observation", step.next_observation},
                  {"terminated", step.terminated}});
      if (!replay.is_ready(1'000)) continue;
      // What was learned may be forgotten again: training ends when it is there.
      if (session.global_step() % 500 == 0 && evaluate(session, 2'000'003) >= 490) session.stop("solved");
      const auto result = session.step(replay.sample(128), [&](const levin::Batch& batch) {
        environments.log_episodes(module);
        return module.training_step(batch, 0);
      });
      stops = result.stops;
    }
    speed.print(environments.steps());
    save_and_evaluate(session, module, environments);
    session.end();
  });
}
