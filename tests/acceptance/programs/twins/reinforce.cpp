#include <levin/levin.h>

namespace nn = torch::nn;

/// Ten fields; the prize is at the right end. Each step costs a little.
struct Corridor {
  struct Answer {
    torch::Tensor state;
    double reward;
    bool done;
  };
  torch::Tensor reset() {
    place = 4, steps = 0;
    return state();
  }
  torch::Tensor state() const { return torch::one_hot(torch::tensor(place), 10).to(torch::kFloat); }
  Answer step(std::int64_t action) {
    place = std::max<std::int64_t>(0, place + (action == 1 ? 1 : -1));
    const bool won = place == 9;
    return {state(), won ? 1.0 : -0.05, ++steps == 30 || won};
  }
  std::int64_t place = 4, steps = 0;
};

class Reinforce : public levin::Module {
 public:
  struct Options {
    std::int64_t hidden = 32;
    double lr = 0.01;
  };
  explicit Reinforce(const Options& options) : options_(options) {}

  levin::LoaderPtr train_dataloader() override {
    return levin::stream([this](auto& rng) -> std::optional<levin::Batch> { return play(rng); }, {.interactive = true});
  }

  levin::StepOutput training_step(const levin::Batch& batch, std::int64_t) override {
    const auto chances = policy_->forward(batch["state"]).log_softmax(1).gather(1, batch["action"].unsqueeze(1)).squeeze(1);
    const auto returns = batch["return"];
    log("return", returns[0], {.prog_bar = true});
    return -(chances * (returns - returns.mean())).sum();
  }

  levin::OptimizerSetups configure_optimizers() override { return levin::Adam(parameters(), options_.lr); }

 private:
  levin::Batch play(levin::Random& rng) {
    const torch::NoGradGuard no_gradients;
    std::vector<torch::Tensor> states, actions;
    std::vector<double> rewards;
    Corridor env;
    Corridor::Answer now{env.reset(), 0, false};
    while (!now.done) {
      states.push_back(now.state);
      actions.push_back(policy_->forward(now.state).softmax(0).multinomial(1, false, rng).squeeze(0));
      now = env.step(actions.back().item<std::int64_t>());
      rewards.push_back(now.reward);
    }
    const auto returns = torch::tensor(rewards).flip(0).cumsum(0).flip(0);
    return {{"state", torch::stack(states)}, {"action", torch::stack(actions)}, {"return", returns}};
  }

  Options options_;
  nn::Sequential policy_ =
      register_module("policy", nn::Sequential(nn::Linear(10, options_.hidden), nn::ReLU(), nn::Linear(options_.hidden, 2)));
};

int main() {
  return levin::run_main([] {
    levin::seed_everything(2);
    Reinforce module({});
    levin::Trainer trainer({.max_epochs = 1, .limit_train_batches = 300, .quiet = true});
    trainer.fit(module);
    std::printf("return %.2f\n", trainer.callback_metrics().at("return"));
  });
}
