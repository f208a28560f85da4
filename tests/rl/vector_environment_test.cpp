#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "rl/counting_environment.h"
#include "support/fixed_loader.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

at::Tensor actions_of(std::int64_t step, std::int64_t environments) {
  return torch::arange(environments, torch::kDouble) + static_cast<double>(step);
}

/// Everything that a step gives.
std::vector<at::Tensor> content_of(const VectorStep& step) {
  std::vector<double> episodes;
  for (const FinishedEpisode& episode : step.episodes) {
    episodes.insert(episodes.end(),
                    {static_cast<double>(episode.environment), episode.total_reward, static_cast<double>(episode.length)});
  }
  return {step.observation, step.next_observation, step.reward, step.terminated, step.truncated, torch::tensor(episodes)};
}

std::vector<at::Tensor> run(VectorEnvironment& environments, int begin, int end) {
  std::vector<at::Tensor> all = {environments.observation()};
  for (int step = begin; step < end; ++step) {
    const auto content = content_of(environments.step(actions_of(step, environments.size())));
    all.insert(all.end(), content.begin(), content.end());
  }
  return all;
}

bool equal(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  return std::ranges::equal(one, other, [](const at::Tensor& a, const at::Tensor& b) { return a.equal(b); });
}

/// Ends an episode, or fails, as the action says.
class ObedientEnvironment : public Environment {
 public:
  at::Tensor reset() override { return torch::full({1}, -1.0 - static_cast<double>(++episodes_)); }
  Transition step(const at::Tensor& action) override {
    const auto how = action.item<std::int64_t>();
    if (how == 3) throw std::domain_error("no such action");
    return {torch::full({how == 4 ? 2 : 1}, static_cast<double>(++steps_)), 0.5, how == 1, how == 2};
  }

 private:
  std::int64_t episodes_ = 0, steps_ = 0;
};

std::unique_ptr<Environment> obedient(std::uint64_t) { return std::make_unique<ObedientEnvironment>(); }

TEST_CASE("an episode that ends is followed by the next in the same step, and its last observation is there") {
  VectorEnvironment environments(obedient, {.environments = 3});
  CHECK(environments.observation().equal(torch::full({3, 1}, -2.0)));
  CHECK(std::isnan(environments.mean_return()));
  VectorStep step = environments.step(torch::tensor({0, 0, 0}));
  CHECK(step.observation.equal(torch::full({3, 1}, 1.0)));
  CHECK(step.next_observation.equal(step.observation));
  CHECK(step.episodes.empty());

  step = environments.step(torch::tensor({0, 1, 2}));
  CHECK(step.next_observation.equal(torch::tensor({2.0F, 2.0F, 2.0F}).unsqueeze(1)));
  CHECK(step.observation.equal(torch::tensor({2.0F, -3.0F, -3.0F}).unsqueeze(1)));
  CHECK(environments.observation().equal(step.observation));
  CHECK(step.reward.equal(torch::full({3}, 0.5)));
  CHECK(step.terminated.equal(torch::tensor({false, true, false})));
  CHECK(step.truncated.equal(torch::tensor({false, false, true})));
  REQUIRE(step.episodes.size() == 2);
  CHECK(step.episodes[0].environment == 1);
  CHECK(step.episodes[0].total_reward == 1.0);
  CHECK(step.episodes[0].length == 2);
  CHECK(step.episodes[1].environment == 2);

  step = environments.step(torch::tensor({1, 1, 0}));
  REQUIRE(step.episodes.size() == 2);
  CHECK(step.episodes[0].length == 3);
  CHECK(step.episodes[1].length == 1);
  CHECK(environments.finished_episodes() == 4);
  CHECK(environments.mean_return() == (1.0 + 1.0 + 1.5 + 0.5) / 4);
  CHECK(environments.mean_length() == (2 + 2 + 3 + 1) / 4.0);
}

TEST_CASE("means are of the last episodes of the window") {
  VectorEnvironment environments(obedient, {.environments = 1, .window = 2});
  environments.reset();
  for (const int action : {1, 0, 1, 0, 0, 1}) environments.step(torch::tensor({action}));
  CHECK(environments.finished_episodes() == 3);
  CHECK(environments.mean_length() == 2.5);
  CHECK(environments.mean_return() == 1.25);
}

TEST_CASE("any number of threads gives the same, to the bit") {
  VectorEnvironment in_caller(counting, {.environments = 7, .seed = 3});
  const auto expected = run(in_caller, 0, 20);
  const int threads = GENERATE(1, 2, 4, 50);
  CAPTURE(threads);
  const int before = at::get_num_threads();
  VectorEnvironment in_threads(counting, {.environments = 7, .threads = threads, .seed = 3});
  CHECK(equal(run(in_threads, 0, 20), expected));
  CHECK(at::get_num_threads() == before);
  CHECK(in_threads.mean_return() == in_caller.mean_return());

  VectorEnvironment other(counting, {.environments = 7, .threads = threads, .seed = 4});
  CHECK_FALSE(equal(run(other, 0, 20), expected));
}

TEST_CASE("each environment of each rank has another seed, also in 32 bits") {
  std::set<std::uint64_t> seeds;
  std::set<std::uint32_t> short_seeds;
  for (int rank = 0; rank < 64; ++rank) {
    for (std::int64_t environment = 0; environment < 64; ++environment) {
      const std::uint64_t seed = environment_seed(5, rank, environment);
      seeds.insert(seed);
      short_seeds.insert(static_cast<std::uint32_t>(seed));
    }
  }
  CHECK(seeds.size() == 64 * 64);
  CHECK(short_seeds.size() == 64 * 64);
  CHECK(environment_seed(5, 1, 2) == environment_seed(5, 1, 2));
  CHECK(environment_seed(6, 1, 2) != environment_seed(5, 1, 2));

  std::vector<std::uint64_t> given;
  const auto note = [&](std::uint64_t seed) {
    given.push_back(seed);
    return counting(seed);
  };
  const VectorEnvironment environments(note, {.environments = 2, .seed = 5, .rank = 3});
  CHECK(given == std::vector<std::uint64_t>{environment_seed(5, 3, 0), environment_seed(5, 3, 1)});
}

TEST_CASE("without a seed it is that of seed_everything()") {
  seed_everything(11);
  VectorEnvironment by_default(counting, {.environments = 2});
  VectorEnvironment given(counting, {.environments = 2, .seed = 11});
  CHECK(by_default.observation().equal(given.observation()));
}

TEST_CASE("environments resume between any two calls, to the bit") {
  const int saved_after = GENERATE(0, 1, 2, 5, 9);
  CAPTURE(saved_after);
  VectorEnvironment whole(counting, {.environments = 3, .seed = 3, .window = 4});
  if (saved_after > 0) run(whole, 0, saved_after);
  const KeptState state = copy_of(whole.kept().save());
  VectorEnvironment resumed(counting, {.environments = 3, .threads = 2, .seed = 99, .window = 4});
  run(resumed, 0, 4);
  resumed.kept().load(state);
  CHECK(resumed.finished_episodes() == whole.finished_episodes());
  CHECK(resumed.steps() == 3 * saved_after);
  CHECK(equal(run(resumed, saved_after, saved_after + 9), run(whole, saved_after, saved_after + 9)));
  CHECK(resumed.mean_return() == whole.mean_return());
  CHECK(resumed.mean_length() == whole.mean_length());

  VectorEnvironment more(counting, {.environments = 4});
  CHECK_THROWS_WITH(more.kept().load(state), Catch::Contains("3 environments") && Catch::Contains("4"));
}

TEST_CASE("an error in an environment names it, and keeps the original") {
  const int threads = GENERATE(0, 2);
  VectorEnvironment environments(obedient, {.environments = 4, .threads = threads, .rank = 1});
  environments.reset();
  try {
    environments.step(torch::tensor({0, 0, 3, 3}));
    FAIL("no error");
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Catch::Contains("step() of environment 2 of 4, rank 1") && Catch::Contains("no such action"));
    CHECK_THROWS_AS(std::rethrow_if_nested(error), std::domain_error);
  }
  CHECK_THROWS_WITH(environments.step(torch::tensor({0, 0, 0, 0})), Catch::Contains("call reset()"));
  environments.reset();
  environments.step(torch::tensor({0, 0, 0, 0}));
}

TEST_CASE("wrong actions and observations are errors that say what is wrong") {
  VectorEnvironment environments(obedient, {.environments = 2});
  CHECK_THROWS_WITH(environments.step(torch::tensor({0, 0})), Catch::Contains("call reset()"));
  environments.reset();
  CHECK_THROWS_WITH(environments.step(torch::tensor({0, 0, 0})), Catch::Contains("[3]") && Catch::Contains("2 environments"));
  CHECK_THROWS_WITH(environments.step(torch::tensor({0, 4})),
                    Catch::Contains("environment 1") && Catch::Contains("[2] Float") && Catch::Contains("[1] Float"));
  CHECK_THROWS_AS(VectorEnvironment(nullptr, {}), MisuseError);
  CHECK_THROWS_AS(VectorEnvironment(obedient, {.environments = 0}), ConfigError);
  CHECK_THROWS_WITH(environments.kept().save(), Catch::Contains("override state()"));
}

TEST_CASE("episodes are logged from a session's closure, when one has ended") {
  struct Net : Module {
    StepOutput training_step(const Batch& batch, std::int64_t) override { return weight.square().sum() * batch["x"].sum(); }
    OptimizerSetups configure_optimizers() override { return SGD(parameters(), 0.1); }
    at::Tensor weight = register_parameter("weight", torch::ones({1}));
  } module;
  const TemporaryFolder folder;
  VectorEnvironment environments(obedient, {.environments = 2});
  Session session({.logger = false,
                   .enable_checkpointing = false,
                   .enable_progress_bar = false,
                   .enable_model_summary = false,
                   .default_root_dir = folder.path(),
                   .log_level = LogLevel::kError},
                  module);
  session.begin();
  environments.reset();
  const auto step = [&](std::vector<std::int64_t> actions) {
    environments.step(torch::tensor(actions));
    session.step({{"x", torch::ones({1})}}, [&](const Batch& batch) {
      environments.log_episodes(module);
      return module.training_step(batch, 0);
    });
  };
  step({0, 0});
  CHECK_FALSE(session.callback_metrics().contains("episode_return"));
  step({0, 1});
  CHECK(session.callback_metrics().at("episode_return") == 1.0);
  CHECK(session.callback_metrics().at("episode_length") == 2.0);
  session.end();
}

}  // namespace
}  // namespace levin::test
