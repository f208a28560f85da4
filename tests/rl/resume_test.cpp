#include <levin/levin.h>

#include <catch2/catch.hpp>

#include "rl/counting_environment.h"
#include "support/copied_weights.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// An actor with a critic, or the values of two actions: what both loops below need.
class Agent : public Module {
 public:
  Agent() {
    torch::manual_seed(1);
    layers_ =
        register_module("layers", torch::nn::Sequential(torch::nn::Linear(3, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3)));
  }
  Batch predict_step(const Batch& batch, std::int64_t) override {
    const at::Tensor output = layers_->forward(batch["observation"] / 10);
    const at::Tensor action = output.narrow(1, 0, 2).softmax(1).multinomial(1, /*replacement=*/false, rank_generator());
    return {{"action", action.squeeze(1)}, {"value", output.select(1, 2)}};
  }
  StepOutput training_step(const Batch& batch, std::int64_t) override {
    const at::Tensor output = layers_->forward(batch["observation"] / 10);
    const at::Tensor loss = (output.select(1, 2) - batch["return"]).square() + output.square().sum(1);
    return (loss * batch["weight"]).mean();
  }
  OptimizerSetups configure_optimizers() override { return Adam(parameters(), 0.05); }
  std::vector<at::Tensor> weights() const { return copied_weights(*this); }

 private:
  torch::nn::Sequential layers_ = nullptr;
};

TrainerOptions saving_each_step(const std::filesystem::path& folder) {
  return {.max_steps = 9,
          .logger = false,
          .callbacks = {ModelCheckpoint({.dirpath = folder, .filename = "{step}", .save_top_k = -1, .every_n_train_steps = 1})},
          .enable_progress_bar = false,
          .enable_model_summary = false,
          .default_root_dir = folder,
          .log_level = LogLevel::kError};
}

/// Trains on rollouts, from the beginning or from a checkpoint.
std::vector<at::Tensor> train_on_rollouts(const std::filesystem::path& folder, const std::optional<std::string>& from = {}) {
  Agent agent;
  Session session(saving_each_step(folder), agent);
  VectorEnvironment environments(counting, {.environments = 3, .seed = 2});
  RolloutBuffer rollout({.steps = 4, .environments = 3, .seed = 2});
  session.keep("environments", environments.kept());
  session.keep("rollout", rollout.kept());
  torch::manual_seed(from ? 77 : 7);
  session.begin(from);
  const auto value_of = [&](const at::Tensor& observation) { return session.predict({{"observation", observation}})["value"]; };
  for (bool stops = session.should_stop(); !stops;) {
    while (!rollout.is_full()) {
      const at::Tensor observation = environments.observation();
      const Batch chosen = session.predict({{"observation", observation}});
      const VectorStep step = environments.step(chosen["action"]);
      rollout.add({{"observation", observation},
                   {"weight", torch::ones({3})},
                   {"value", chosen["value"]},
                   {"reward", step.reward},
                   {"terminated", step.terminated},
                   {"truncated", step.truncated},
                   {"final_value", value_of(step.next_observation)}});
      if (rollout.is_full()) rollout.finish(value_of(step.observation));
    }
    for (const Batch& batch : rollout.minibatches(5, 2)) {
      stops = session.step(batch).stops;
      if (stops) break;
    }
  }
  session.end();
  return agent.weights();
}

/// Trains on a replay buffer with priorities.
std::vector<at::Tensor> train_on_replay(const std::filesystem::path& folder, const std::optional<std::string>& from = {}) {
  Agent agent;
  Session session(saving_each_step(folder), agent);
  VectorEnvironment environments(counting, {.environments = 3, .threads = 2, .seed = 2});
  ReplayBuffer replay({.capacity = 10, .priority_exponent = 0.6, .seed = 2});
  session.keep("environments", environments.kept());
  session.keep("replay", replay.kept());
  torch::manual_seed(from ? 77 : 7);
  session.begin(from);
  for (bool stops = session.should_stop(); !stops;) {
    const at::Tensor observation = environments.observation();
    const VectorStep step = environments.step(session.predict({{"observation", observation}})["action"]);
    replay.add({{"observation", observation}, {"return", step.reward}});
    if (!replay.is_ready(6)) continue;
    const Batch batch = replay.sample(4);
    // A checkpoint of the step has what the caller has changed until then.
    replay.update_priorities(batch["index"], batch["return"].abs() + 0.1);
    stops = session.step(batch).stops;
  }
  session.end();
  return agent.weights();
}

TEST_CASE("training on rollouts and on a replay buffer resumes from each step's checkpoint, to the bit") {
  const auto train = GENERATE(train_on_rollouts, train_on_replay);
  const TemporaryFolder folder;
  const auto expected = train(folder / "whole", std::nullopt);
  int resumed = 0;
  for (int step = 1; step < 9; ++step) {
    CAPTURE(step);
    const std::filesystem::path file = folder / "whole" / ("step=" + std::to_string(step) + ".ckpt");
    REQUIRE(std::filesystem::exists(file));
    const auto found = train(folder / "resumed", file.string());
    CHECK(std::ranges::equal(found, expected, [](const at::Tensor& a, const at::Tensor& b) { return a.equal(b); }));
    ++resumed;
  }
  CHECK(resumed == 8);
}

}  // namespace
}  // namespace levin::test
