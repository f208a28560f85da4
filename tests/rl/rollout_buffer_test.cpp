#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "rl/counting_environment.h"

namespace levin::test {
namespace {

/// A step of two environments: made numbers, which end episodes.
Batch step_of(std::int64_t step) {
  const double at = static_cast<double>(step);
  return {{"observation", torch::tensor({{at, 1.0}, {at, 2.0}})},
          {"value", torch::tensor({std::sin(at), std::cos(at)}, torch::kFloat)},
          {"reward", torch::tensor({1.0 + at, 2.0 - at}, torch::kFloat)},
          {"terminated", torch::tensor({step % 4 == 1, false})},
          {"truncated", torch::tensor({false, step % 3 == 2})},
          {"final_value", torch::tensor({7.0 + at, 9.0 + at}, torch::kFloat)}};
}

const at::Tensor& last_value() {
  static const at::Tensor value = torch::tensor({0.25F, -0.5F});
  return value;
}

RolloutBuffer::Options options_of(std::int64_t steps) {
  return {.steps = steps, .environments = 2, .gamma = 0.9, .gae_lambda = 0.8, .seed = 6};
}

void fill(RolloutBuffer& buffer, std::int64_t steps) {
  for (std::int64_t step = buffer.size(); step < steps; ++step) buffer.add(step_of(step));
}

TEST_CASE("advantages are those worked out by hand") {
  RolloutBuffer buffer({.steps = 3, .environments = 1, .gamma = 0.5, .gae_lambda = 0.5});
  const auto add = [&](double value, double reward, bool terminated, bool truncated) {
    buffer.add({{"value", torch::full({1}, value)},
                {"reward", torch::full({1}, reward)},
                {"terminated", torch::full({1}, terminated, torch::kBool)},
                {"truncated", torch::full({1}, truncated, torch::kBool)},
                {"final_value", torch::full({1}, 8.0)}});
  };
  std::vector<double> expected;
  SECTION("an episode that continues") {
    add(1, 1, false, false), add(2, 2, false, false), add(4, 3, false, false);
    // δ: 1 + 2/2 - 1, 2 + 4/2 - 2, 3 + 6/2 - 4; each advantage has a quarter of the next.
    expected = {1 + (2 + 2.0 / 4) / 4, 2 + 2.0 / 4, 2};
  }
  SECTION("one that terminates has no future") {
    add(1, 1, false, false), add(2, 2, true, false), add(4, 3, false, false);
    expected = {1 + 0.0 / 4, 0, 2};  // δ of the second: 2 + 0 - 2
  }
  SECTION("one that is truncated has the value of its last state") {
    add(1, 1, false, false), add(2, 2, false, true), add(4, 3, false, false);
    expected = {1 + 4.0 / 4, 4, 2};  // 2 + 8/2 - 2
  }
  SECTION("the goal at the limit of steps terminates") {
    add(1, 1, false, false), add(2, 2, true, true), add(4, 3, false, false);
    expected = {1, 0, 2};
  }
  SECTION("the last step may end an episode") {
    add(1, 1, false, false), add(2, 2, false, false), add(4, 3, false, true);
    expected = {1 + (2 + 3.0 / 4) / 4, 2 + 3.0 / 4, 3};  // 3 + 8/2 - 4
  }
  CHECK_FALSE(buffer.is_finished());
  buffer.finish(torch::tensor({6.0F}));
  CHECK(buffer.is_finished());
  CHECK(buffer.rows()["advantage"].equal(torch::tensor(expected, torch::kFloat)));
  CHECK(buffer.rows()["return"].equal(torch::tensor(expected, torch::kFloat) + torch::tensor({1.0F, 2.0F, 4.0F})));
}

TEST_CASE("advantages are the sums of their definition") {
  const std::int64_t steps = 25;
  RolloutBuffer buffer(options_of(steps));
  fill(buffer, steps);
  buffer.finish(last_value());
  const Batch rows = buffer.rows();
  CHECK(rows["observation"].sizes() == at::IntArrayRef({2 * steps, 2}));
  CHECK_FALSE(rows.contains("final_value"));
  const auto number = [](const char* name, std::int64_t step, std::int64_t environment) {
    return step_of(step)[name][environment].item<double>();
  };
  for (std::int64_t environment = 0; environment < 2; ++environment) {
    for (std::int64_t first = 0; first < steps; ++first) {
      double sum = 0, weight = 1;
      for (std::int64_t step = first; step < steps; ++step, weight *= 0.9 * 0.8) {
        const bool terminated = number("terminated", step, environment) != 0,
                   truncated = number("truncated", step, environment) != 0;
        double next = step + 1 < steps ? number("value", step + 1, environment) : last_value()[environment].item<double>();
        if (truncated) next = number("final_value", step, environment);
        if (terminated) next = 0;
        sum += weight * (number("reward", step, environment) + 0.9 * next - number("value", step, environment));
        if (terminated || truncated) break;
      }
      CHECK(rows["advantage"][first * 2 + environment].item<double>() == Approx(sum).margin(1e-5));
      CHECK(rows["return"][first * 2 + environment].item<double>() ==
            Approx(sum + number("value", first, environment)).margin(1e-5));
      CHECK(rows["observation"][first * 2 + environment][1].item<double>() == static_cast<double>(environment) + 1);
    }
  }
}

TEST_CASE("each pass has every row once, in another order, and the buffer is empty afterwards") {
  RolloutBuffer buffer(options_of(5));
  fill(buffer, 5);
  buffer.finish(last_value());
  const Batch rows = buffer.rows();
  const at::Tensor keys = rows["observation"].select(1, 0) * 10 + rows["observation"].select(1, 1);
  std::vector<at::Tensor> passes;
  std::vector<at::Tensor> parts;
  std::vector<std::int64_t> sizes;
  for (const Batch& batch : buffer.minibatches(4, 3)) {
    parts.push_back(batch["observation"].select(1, 0) * 10 + batch["observation"].select(1, 1));
    sizes.push_back(batch.batch_size());
    // All tensors have the same rows.
    for (std::int64_t row = 0; row < batch.batch_size(); ++row) {
      const std::int64_t found = (keys == parts.back()[row]).nonzero()[0].item<std::int64_t>();
      for (const auto& [name, tensor] : batch.items()) CHECK(tensor[row].equal(rows[name][found]));
    }
    if (parts.size() < 3) continue;
    passes.push_back(torch::cat(parts));
    parts.clear();
  }
  CHECK(sizes == std::vector<std::int64_t>{4, 4, 2, 4, 4, 2, 4, 4, 2});
  REQUIRE(passes.size() == 3);
  for (const at::Tensor& pass : passes) CHECK(std::get<0>(pass.sort()).equal(std::get<0>(keys.sort())));
  CHECK_FALSE(passes[0].equal(passes[1]));
  CHECK_FALSE(passes[1].equal(passes[2]));
  CHECK(buffer.size() == 0);
  CHECK_FALSE(buffer.is_finished());
  fill(buffer, 5);
  CHECK(buffer.is_full());
}

TEST_CASE("a loop over minibatches that was left continues, unless the buffer is cleared") {
  RolloutBuffer buffer(options_of(5));
  fill(buffer, 5);
  buffer.finish(last_value());
  for (const Batch& batch : buffer.minibatches(4)) {
    CHECK(batch.batch_size() == 4);
    break;
  }
  std::vector<std::int64_t> sizes;
  for (const Batch& batch : buffer.minibatches(4)) sizes.push_back(batch.batch_size());
  CHECK(sizes == std::vector<std::int64_t>{4, 2});
  fill(buffer, 5);
  buffer.clear();
  CHECK(buffer.size() == 0);
}

TEST_CASE("a rollout buffer resumes between any two calls, to the bit") {
  // Five calls of add(), finish(), six of next_minibatch() and one that ends the rollout: two rollouts.
  constexpr int kCalls = 13;
  const auto run = [&](RolloutBuffer& buffer, int begin, int end) {
    std::vector<Batch> batches;
    for (int call = begin; call < end; ++call) {
      const int of_rollout = call % kCalls;
      if (of_rollout < 5) {
        buffer.add(step_of(call));
      } else if (of_rollout == 5) {
        buffer.finish(last_value());
      } else if (auto batch = buffer.next_minibatch(4, 2)) {
        batches.push_back(*std::move(batch));
      }
    }
    return batches;
  };
  const int saved_after = GENERATE(range(0, kCalls + 2));
  CAPTURE(saved_after);
  RolloutBuffer whole(options_of(5)), resumed(options_of(5));
  run(whole, 0, saved_after);
  const KeptState state = copy_of(whole.kept().save());
  run(resumed, 0, 8);
  resumed.kept().load(state);
  const auto expected = run(whole, saved_after, 2 * kCalls), found = run(resumed, saved_after, 2 * kCalls);
  REQUIRE(expected.size() >= 6);
  CHECK(std::ranges::equal(found, expected, [](const Batch& a, const Batch& b) { return same(a, b); }));
  RolloutBuffer longer(options_of(6));
  CHECK_THROWS_WITH(longer.kept().load(state), Catch::Contains("5 steps of 2"));
}

TEST_CASE("wrong steps of a rollout are errors that name the tensor") {
  RolloutBuffer buffer(options_of(2));
  const auto without = [](const std::string& name) {
    Batch rest;
    const Batch all = step_of(2);
    for (const auto& [one, tensor] : all.items()) {
      if (one != name) rest.set(one, tensor);
    }
    return rest;
  };
  const auto with = [](const std::string& name, const at::Tensor& tensor) {
    Batch step = step_of(2);
    step.set(name, tensor);
    return step;
  };
  for (const char* name : {"value", "reward", "terminated", "truncated"}) {
    CHECK_THROWS_WITH(buffer.add(without(name)), Catch::Contains(std::string("'") + name + "' is missing"));
    CHECK_THROWS_WITH(buffer.add(with(name, torch::ones({2, 1}))), Catch::Contains(name) && Catch::Contains("[2, 1]"));
  }
  CHECK_THROWS_WITH(buffer.add(without("final_value")), Catch::Contains("truncated, which needs 'final_value'"));
  CHECK_THROWS_WITH(buffer.add({{"observation", torch::ones({3, 2})}}),
                    Catch::Contains("'observation' is [3, 2] Float") && Catch::Contains("2 environments"));
  buffer.add(step_of(2));
  CHECK_THROWS_WITH(buffer.add(with("observation", torch::ones({2, 5}))),
                    Catch::Contains("'observation' is [2, 5] Float") && Catch::Contains("[2] Float"));
  CHECK_THROWS_WITH(buffer.add(with("reward", torch::ones({2}, torch::kDouble))), Catch::Contains("'reward' is [2] Double"));
  CHECK_THROWS_AS(buffer.add(without("observation")), MisuseError);
  CHECK_THROWS_WITH(buffer.finish(last_value()), Catch::Contains("1 of 2 steps"));
  CHECK_THROWS_WITH(buffer.minibatches(2), Catch::Contains("finish()"));
  buffer.add(step_of(3));
  CHECK_THROWS_WITH(buffer.add(step_of(4)), Catch::Contains("full"));
  CHECK_THROWS_WITH(buffer.finish(torch::ones({3})), Catch::Contains("[3]"));
  buffer.finish(last_value());
  CHECK_THROWS_AS(buffer.next_minibatch(0), MisuseError);
  CHECK_THROWS_AS(RolloutBuffer({.gamma = 1.5}), ConfigError);
}

}  // namespace
}  // namespace levin::test
