#include <levin/levin.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "levin/rl/random_numbers.h"
#include "levin/rl/sum_tree.h"
#include "rl/counting_environment.h"

namespace levin::test {
namespace {

/// Transitions `begin`, `begin` + 1, …
Batch numbered(std::int64_t begin, std::int64_t count) {
  const at::Tensor numbers = torch::arange(begin, begin + count);
  return {{"observation", numbers.to(torch::kFloat).unsqueeze(1).repeat({1, 3})}, {"action", numbers}};
}

std::set<std::int64_t> drawn(ReplayBuffer& buffer) {
  const at::Tensor actions = buffer.sample(500)["action"];
  std::set<std::int64_t> all;
  for (std::int64_t row = 0; row < actions.size(0); ++row) all.insert(actions[row].item<std::int64_t>());
  return all;
}

TEST_CASE("the newest transitions are there, whole, however many come at once") {
  ReplayBuffer buffer({.capacity = 5, .seed = 1});
  CHECK(buffer.capacity() == 0);
  CHECK_FALSE(buffer.is_ready(1));
  buffer.add(numbered(0, 3));
  CHECK(buffer.size() == 3);
  CHECK(buffer.is_ready(3));
  CHECK_FALSE(buffer.is_ready(4));
  CHECK(drawn(buffer) == std::set<std::int64_t>{0, 1, 2});
  buffer.add(numbered(3, 4));
  CHECK(buffer.size() == 5);
  CHECK(drawn(buffer) == std::set<std::int64_t>{2, 3, 4, 5, 6});
  buffer.add(numbered(7, 0));
  buffer.add(numbered(7, 12));
  CHECK(drawn(buffer) == std::set<std::int64_t>{14, 15, 16, 17, 18});
  buffer.add(numbered(19, 1));
  CHECK(drawn(buffer) == std::set<std::int64_t>{15, 16, 17, 18, 19});

  const Batch sample = buffer.sample(64);
  CHECK(sample.items()[0].first == "observation");
  CHECK(sample["observation"].sizes() == at::IntArrayRef({64, 3}));
  CHECK(sample["observation"].select(1, 2).to(torch::kLong).equal(sample["action"]));
  CHECK_FALSE(sample.contains("weight"));
}

TEST_CASE("what is added is a copy") {
  ReplayBuffer buffer({.capacity = 2});
  const Batch rows = numbered(4, 2);
  buffer.add(rows);
  rows["action"].zero_();
  CHECK(drawn(buffer) == std::set<std::int64_t>{4, 5});
}

TEST_CASE("uniform draws are as frequent as they should be, and those of a seed") {
  ReplayBuffer buffer({.capacity = 10, .seed = 5}), same_seed({.capacity = 10, .seed = 5}), other({.capacity = 10, .seed = 6});
  for (ReplayBuffer* one : {&buffer, &same_seed, &other}) one->add(numbered(0, 10));
  const at::Tensor actions = buffer.sample(20'000)["action"];
  CHECK(actions.equal(same_seed.sample(20'000)["action"]));
  CHECK_FALSE(actions.equal(other.sample(20'000)["action"]));
  const at::Tensor counts = torch::bincount(actions);
  // Chi squared of nine degrees of freedom: above 27.9 in one of a thousand.
  CHECK((counts - 2'000).to(torch::kDouble).square().div(2'000).sum().item<double>() < 27.9);
}

TEST_CASE("a bound of memory decides on the capacity, or says how many transitions fit") {
  // 3 floats and one number of 8 bytes: 20 bytes.
  ReplayBuffer by_bytes({.max_bytes = 205});
  by_bytes.add(numbered(0, 1));
  CHECK(by_bytes.capacity() == 10);
  CHECK(by_bytes.bytes() == 200);
  ReplayBuffer exact({.capacity = 10, .max_bytes = 200});
  exact.add(numbered(0, 1));
  CHECK(exact.capacity() == 10);
  ReplayBuffer too_many({.capacity = 11, .max_bytes = 205});
  CHECK_THROWS_WITH(too_many.add(numbered(0, 1)),
                    Catch::Contains("11 transitions take 220 bytes") && Catch::Contains("205") && Catch::Contains("10 fit"));
  CHECK(too_many.size() == 0);
  ReplayBuffer none({.max_bytes = 19});
  CHECK_THROWS_WITH(none.add(numbered(0, 1)), Catch::Contains("20 bytes") && Catch::Contains("None fit"));
  // The tree of 8 priorities has 16 numbers of 8 bytes, that of 9 has 32.
  ReplayBuffer prioritized({.max_bytes = 8 * 20 + 16 * 8 + 40, .priority_exponent = 1});
  prioritized.add(numbered(0, 1));
  CHECK(prioritized.capacity() == 8);
  CHECK(prioritized.bytes() == 8 * 20 + 16 * 8);
  CHECK_THROWS_WITH(ReplayBuffer({}), Catch::Contains("one of capacity and max_bytes"));
}

TEST_CASE("a sum tree finds each weight by its share") {
  const std::int64_t size = GENERATE(1, 2, 3, 7, 8, 13);
  SumTree tree(size);
  RandomNumbers random(static_cast<std::uint64_t>(size));
  std::vector<double> weights;
  for (std::int64_t index = 0; index < size; ++index) {
    weights.push_back(index % 3 == 1 ? 0 : 1 + static_cast<double>(random.below(9)));  // whole numbers: sums are exact
    tree.set(index, 5);
    tree.set(index, weights.back());
  }
  double begin = 0;
  for (std::int64_t index = 0; index < size; ++index) {
    const double weight = weights[static_cast<std::size_t>(index)];
    CHECK(tree.weight(index) == weight);
    if (weight > 0) {
      CHECK(tree.find(begin) == index);
      CHECK(tree.find(begin + weight / 2) == index);
    }
    begin += weight;
  }
  CHECK(tree.total() == begin);
  CHECK(weights[static_cast<std::size_t>(tree.find(begin))] > 0);  // rounded up to the total
}

TEST_CASE("prioritized draws and weights are those of Schaul et al.") {
  ReplayBuffer buffer({.capacity = 4, .priority_exponent = 0.5, .importance_exponent = 0.7, .seed = 2});
  buffer.add(numbered(0, 4));
  buffer.update_priorities(torch::arange(4), torch::tensor({1.0, 4.0, 9.0, 16.0}));
  // To the power of 0.5 they are 1, 2, 3 and 4: of 10 equal parts each has as many as that.
  const Batch exact = buffer.sample(10);
  CHECK(torch::bincount(exact["index"]).equal(torch::tensor({1, 2, 3, 4})));
  CHECK(exact["index"].equal(exact["action"]));
  for (std::int64_t row = 0; row < 10; ++row) {
    const double chance = (exact["index"][row].item<double>() + 1) / 10;
    const double expected = std::pow(4 * chance, -0.7) / std::pow(4 * 0.1, -0.7);
    CHECK(exact["weight"][row].item<double>() == Approx(expected).epsilon(1e-6));
  }
  at::Tensor counts = torch::zeros({4}, torch::kLong);
  for (int draw = 0; draw < 10'000; ++draw) counts += torch::bincount(buffer.sample(1)["index"], {}, 4);
  const at::Tensor expected = torch::tensor({1'000.0, 2'000.0, 3'000.0, 4'000.0});
  // Three degrees of freedom: above 16.3 in one of a thousand.
  CHECK((counts - expected).square().div(expected).sum().item<double>() < 16.3);

  buffer.set_importance_exponent(0);
  CHECK(buffer.sample(8)["weight"].equal(torch::ones({8})));
  CHECK_THROWS_AS(buffer.set_importance_exponent(1.5), ConfigError);
}

TEST_CASE("new transitions have the largest priority so far") {
  ReplayBuffer buffer({.capacity = 4, .priority_exponent = 1, .seed = 2});
  buffer.add(numbered(0, 2));
  CHECK(torch::bincount(buffer.sample(10)["index"], {}, 4).equal(torch::tensor({5, 5, 0, 0})));
  buffer.update_priorities(torch::tensor({0}), torch::tensor({3.0}));
  buffer.update_priorities(torch::tensor({0}), torch::tensor({2.0}));
  buffer.add(numbered(2, 1));
  CHECK(torch::bincount(buffer.sample(12)["index"], {}, 4).equal(torch::tensor({4, 2, 6, 0})));
}

TEST_CASE("a replay buffer resumes between any two calls, to the bit") {
  const double exponent = GENERATE(0.0, 0.6);
  const int saved_after = GENERATE(0, 1, 2, 3, 5, 8, 12);
  CAPTURE(exponent, saved_after);
  const ReplayBuffer::Options options = {.capacity = 7, .priority_exponent = exponent, .seed = 4};
  const auto run = [&](ReplayBuffer& buffer, int begin, int end) {
    std::vector<Batch> samples;
    for (int call = begin; call < end; ++call) {
      if (call % 3 == 0) {
        buffer.add(numbered(2 * call, 1 + call % 4));
      } else {
        samples.push_back(buffer.sample(6));
        if (exponent > 0) {
          buffer.update_priorities(samples.back()["index"], (samples.back()["action"] + 1).to(torch::kDouble) / 7);
          buffer.set_importance_exponent(0.05 * call);
        }
      }
    }
    return samples;
  };
  ReplayBuffer whole(options), resumed(options);
  run(whole, 0, saved_after);
  const KeptState state = copy_of(whole.kept().save());
  run(resumed, 0, 5);
  resumed.kept().load(state);
  CHECK(resumed.size() == whole.size());
  const auto expected = run(whole, saved_after, 15), found = run(resumed, saved_after, 15);
  REQUIRE(expected.size() > 1);
  CHECK(std::ranges::equal(found, expected, [](const Batch& a, const Batch& b) { return same(a, b); }));
}

TEST_CASE("the state of another replay buffer is an error") {
  ReplayBuffer buffer({.capacity = 7}), smaller({.capacity = 6}), prioritized({.capacity = 7, .priority_exponent = 1});
  buffer.add(numbered(0, 3));
  const KeptState state = copy_of(buffer.kept().save());
  CHECK_THROWS_WITH(smaller.kept().load(state), Catch::Contains("7 transitions") && Catch::Contains("6"));
  CHECK_THROWS_WITH(prioritized.kept().load(state), Catch::Contains("without priorities"));
}

TEST_CASE("wrong transitions are errors that name the tensor and both shapes") {
  ReplayBuffer buffer({.capacity = 7, .priority_exponent = 1});
  CHECK_THROWS_WITH(buffer.sample(1), Catch::Contains("empty"));
  CHECK_THROWS_WITH(buffer.add({}), Catch::Contains("no tensors"));
  CHECK_THROWS_WITH(buffer.add(torch::ones({2})), Catch::Contains("name"));
  CHECK_THROWS_WITH(buffer.add({{"a.b", torch::ones({2})}}), Catch::Contains("'a.b'"));
  CHECK_THROWS_WITH(buffer.add({{"a", torch::ones({2})}, {"b", torch::ones({3})}}),
                    Catch::Contains("'b' is [3] Float") && Catch::Contains("'a' has 2 rows"));
  CHECK_THROWS_WITH(buffer.add({{"a", torch::tensor(1)}}), Catch::Contains("'a' has no rows"));
  buffer.add(numbered(0, 2));
  CHECK_THROWS_WITH(buffer.add({{"observation", torch::ones({2, 4})}, {"action", torch::arange(2)}}),
                    Catch::Contains("'observation' is [2, 4] Float") && Catch::Contains("[3] Float"));
  CHECK_THROWS_WITH(buffer.add({{"observation", torch::ones({2, 3})}, {"action", torch::ones({2})}}),
                    Catch::Contains("'action' is [2] Float") && Catch::Contains("Long"));
  CHECK_THROWS_AS(buffer.add({{"observation", torch::ones({2, 3})}}), MisuseError);
  CHECK_THROWS_AS(buffer.add({{"observation", torch::ones({2, 3})}, {"move", torch::arange(2)}}), MisuseError);
  CHECK_THROWS_AS(buffer.sample(0), MisuseError);
  CHECK_THROWS_WITH(buffer.update_priorities(torch::tensor({2}), torch::tensor({1.0})), Catch::Contains("no transition 2"));
  CHECK_THROWS_WITH(buffer.update_priorities(torch::tensor({1}), torch::tensor({0.0})), Catch::Contains("above 0"));
  CHECK_THROWS_WITH(buffer.update_priorities(torch::tensor({1}), torch::tensor({NAN})), Catch::Contains("nan"));
  CHECK_THROWS_WITH(buffer.update_priorities(torch::tensor({1}), torch::ones({2})), Catch::Contains("[1]"));
  CHECK(buffer.size() == 2);
  ReplayBuffer uniform({.capacity = 7});
  uniform.add(numbered(0, 2));
  CHECK_THROWS_WITH(uniform.update_priorities(torch::tensor({1}), torch::ones({1})), Catch::Contains("priority_exponent"));
}

}  // namespace
}  // namespace levin::test
