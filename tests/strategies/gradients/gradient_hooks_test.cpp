#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <sstream>

#include "levin/core/config/value_json.h"
#include "strategies/support/distributed_run.h"
#include "support/file_text.h"

namespace {

using levin::Value;
using levin_test::Distributed;
using levin_test::kLimit;
using levin_test::train;

std::vector<double> numbers_in(const std::string& text) {
  std::istringstream input(text);
  std::vector<double> numbers;
  for (double number = 0; input >> number;) numbers.push_back(number);
  return numbers;
}

/// The gradients that rank 0 has, step by step.
std::vector<std::vector<double>> gradients(const std::string& scenario, const std::string& control_group = "auto") {
  Distributed program(scenario, 2, control_group);
  REQUIRE(program.wait(kLimit) == 0);
  CHECK(program.count("WRONG") == 0);
  std::vector<std::vector<double>> found;
  for (const std::string& text : program.values("gradients")) found.push_back(numbers_in(text));
  return found;
}

/// By kind and manner the sum of the weights, which all ranks have to the bit.
std::map<std::string, double> odd_weights(int ranks, const std::string& control_group) {
  Distributed program("odd_weights", ranks, control_group);
  REQUIRE(program.wait(2 * kLimit) == 0);
  std::map<std::string, std::set<std::string>> found;
  std::map<std::string, double> sums;
  for (const std::string& text : program.values("trained")) {
    std::istringstream words(text);
    std::string what;
    std::string bits;
    double sum = 0;
    words >> what >> sum >> bits;
    sums[what] = sum;
    found[what].insert(bits);
  }
  for (const auto& [what, bits] : found) {
    INFO(what);
    CHECK(bits.size() == 1);
  }
  return sums;
}

}  // namespace

TEST_CASE("tied, shared, sparse and complex weights train to those of one process, however gradients travel") {
  const std::map<std::string, double> one = odd_weights(1, "auto");
  const auto [ranks, control_group] = GENERATE(table<int, std::string>({{2, "auto"}, {4, "auto"}, {2, "gloo"}}));
  const std::map<std::string, double> several = odd_weights(ranks, control_group);
  CHECK(several.size() == 55);
  for (const auto& [what, sum] : several) {
    INFO(what << " on " << ranks << " ranks");
    const std::string manner = what.substr(what.find(':') + 1);
    if (manner == "uneven" || manner == "by_turns") continue;  // other samples than one process has
    CHECK(sum == Approx(one.at(what)).epsilon(manner == "fp16" ? 1e-2 : manner.starts_with("power_sgd") ? 1e-3 : 1e-5));
  }
}

TEST_CASE("a sparse gradient that nobody could know of is an error that says what to do") {
  Distributed program("sparse_function", 2);
  CHECK(program.wait(kLimit) == 1);
  CHECK(program.count("the gradient of rows is sparse") >= 1);
  CHECK(program.count("Use one of these with sparse(true)") >= 1);
}

TEST_CASE("a static graph trains to the weights of one that is not, unused parameters included") {
  CHECK(train("train_static", 2) == Approx(train("train", 2)).epsilon(1e-6));
  CHECK(train("train_static", 2, "gloo") == Approx(train("train", 2)).epsilon(1e-6));
  CHECK(train("unused_static", 4) == Approx(train("unused_static", 1)).epsilon(1e-5));
  CHECK(train("uneven_static", 2) == Approx(train("uneven_unused", 2)).epsilon(1e-6));
}

TEST_CASE("a rank without a batch in the first step learns a static graph from the others") {
  CHECK(train("late_static", 1) == Approx(train("unused", 1)).epsilon(1e-6));
  train("late_static", 3);
}

TEST_CASE("a graph that is called static and changes, or differs between ranks, is an error that names the parameter") {
  const auto [scenario, message] = GENERATE(table<std::string, std::string>(
      {{"static_uses_less", "the backward pass gave no gradient to spare.weight, spare.bias, so its reduction could not end"},
       {"static_uses_more", "spare.weight has a gradient, and had none in the first"},
       {"static_differs", "all ranks must use the same parameters, but spare.weight was used on only some ranks"}}));
  Distributed program(scenario, 2);
  CHECK(program.wait(kLimit) == 1);
  CHECK(program.count(message) >= 1);
}

TEST_CASE("a gradient is averaged once, also of what is frozen or unfrozen among batches that are not reduced") {
  const std::string control_group = GENERATE("auto", "gloo");
  // Ranks have x and 3 x. What is unfrozen has 2 x and x of two batches, its own until ranks have agreed on it.
  const std::vector<double> mean = {2, 20}, own = {3, 30}, of_both = {6, 60};
  CHECK(gradients("changed_between", control_group) == std::vector{mean, own, mean, mean, of_both, mean});
}

TEST_CASE("a gradient that travels in 16 bits is rounded to them, and votes are not") {
  // Ranks have x and 2 x, which are halved and rounded, added up, and rounded again.
  const std::string control_group = GENERATE("auto", "gloo");
  const auto check = [&](const char* scenario, const std::vector<double>& expected) {
    const std::vector<double> found = gradients(scenario, control_group).at(0);
    REQUIRE(found.size() == expected.size());
    for (std::size_t index = 0; index < found.size(); ++index) CHECK(found[index] == Approx(expected[index]).epsilon(1e-7));
  };
  check("gradient_none", {0.5, 1500.15, 0.0015, -4.0774227});
  // 500.05 is 500 and 1000.1 is 1000 in steps of 1/4 and 1/2; 0.0005 + 0.001 and 1.3591409 + 2.7182818 are rounded likewise.
  check("gradient_fp16", {0.5, 1500, 0.00150108337, -4.078125});
  // 8 bits: 500 and 1000, whose sum is 1500 and becomes 1504, in steps of 8.
  check("gradient_bf16", {0.5, 1504, 0.00149536133, -4.0625});
}

TEST_CASE("PowerSGD gives the gradients of PyTorch's powerSGD_hook") {
  const Value reference =
      levin::parse_json(levin::test::read_text(LEVIN_SOURCE_DIR "/tests/strategies/gradients/power_sgd_reference.json"));
  for (const std::string setting : {"rank_1", "rank_2", "cold", "without_feedback"}) {
    const auto found = gradients("power_sgd_" + setting);
    const Value::List& expected = reference.at("results").at(setting).as_list();
    REQUIRE(found.size() == expected.size());
    for (std::size_t step = 0; step < found.size(); ++step) {
      const Value::List& numbers = expected[step].as_list();
      REQUIRE(found[step].size() == numbers.size());
      for (std::size_t index = 0; index < numbers.size(); ++index) {
        INFO(setting << ", step " << step << ", element " << index);
        CHECK(found[step][index] == Approx(numbers[index].as_double()).margin(1e-6));
      }
    }
  }
}

TEST_CASE("ranks train with PowerSGD to equal weights, and as without it where its rank is that of the gradients") {
  const std::string control_group = GENERATE("auto", "gloo");
  CHECK(train("power_sgd", 2, control_group) == Approx(train("train", 2)).epsilon(1e-4));
  train("power_sgd_uneven", 3, control_group);
}
