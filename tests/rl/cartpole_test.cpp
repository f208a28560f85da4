#include "cartpole/cartpole.h"

#include <catch2/catch.hpp>

#include "levin/core/base/text.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

void put(CartPole& environment, const std::vector<std::string>& cells) {
  environment.set(std::stod(cells[2]), std::stod(cells[3]), std::stod(cells[4]), std::stod(cells[5]));
}

TEST_CASE("the example's CartPole is Gymnasium's CartPole-v1") {
  CartPole environment(1);
  std::int64_t compared = 0, terminated = 0, truncated = 0;
  const auto lines = lines_of(read_text(std::string(LEVIN_SOURCE_DIR) + "/tests/rl/data/cartpole_v1.csv"));
  for (std::size_t line = 2; line < lines.size(); ++line) {
    const auto cells = split(lines[line], ",");
    CAPTURE(line, lines[line]);
    REQUIRE(cells.size() == 8);
    const std::int64_t action = std::stoll(cells[1]);
    if (action < 0) {
      environment.reset();
      put(environment, cells);
      continue;
    }
    const Transition transition = environment.step(torch::tensor(action));
    CHECK(transition.reward == 1.0);
    CHECK(transition.terminated == (cells[6] == "1"));
    CHECK(transition.truncated == (cells[7] == "1"));
    terminated += transition.terminated ? 1 : 0;
    truncated += transition.truncated ? 1 : 0;
    if (cells[2].empty()) continue;
    const KeptState state = environment.state();
    for (std::int64_t number = 0; number < 4; ++number) {
      const double expected = std::stod(cells[2 + static_cast<std::size_t>(number)]);
      CHECK(state.tensors.at("state")[number].item<double>() == Approx(expected).margin(1e-11));
      CHECK(transition.observation[number].item<float>() == Approx(expected).margin(1e-6));
      ++compared;
    }
    put(environment, cells);  // the pole magnifies what rounding does
  }
  CHECK(compared > 400);
  CHECK(terminated == 4);
  CHECK(truncated == 1);
}

TEST_CASE("episodes begin as Gymnasium's, from the environment's seed, and resume to the bit") {
  VectorEnvironment whole([](auto seed) { return std::make_unique<CartPole>(seed); }, {.environments = 16, .seed = 3});
  const at::Tensor first = whole.observation();
  CHECK(first.abs().max().item<double>() < 0.05);
  CHECK(first.std().item<double>() == Approx(0.05 / std::sqrt(3)).epsilon(0.2));
  const at::Tensor actions = torch::arange(16) % 2;
  for (int step = 0; step < 30; ++step) whole.step(actions);
  VectorEnvironment resumed([](auto seed) { return std::make_unique<CartPole>(seed); }, {.environments = 16, .seed = 4});
  resumed.kept().load(whole.kept().save());
  for (int step = 0; step < 30; ++step) CHECK(resumed.step(actions).observation.equal(whole.step(actions).observation));
  CHECK(resumed.finished_episodes() > 32);
}

}  // namespace
}  // namespace levin::test
