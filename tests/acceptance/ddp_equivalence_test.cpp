#include <catch2/catch.hpp>
#include <sstream>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

TEST_CASE("ranks train as one process with all their samples, step by step") {
  const std::string ranks = GENERATE("4", "2", "8");
  const TemporaryFolder folder;
  const Outcome outcome = run({.arguments = {LEVIN_BINARY_DIR "/bin/ddp_equivalence", ranks}, .folder = folder.path()});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.out, Catch::Contains("equal within 1e-06"));
  std::istringstream lines(outcome.out);
  int steps = 0;
  double first_loss = 0;
  double last_loss = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream numbers(line);
    int step = 0;
    double loss = 0;
    double alone = 0;
    double gradients = 0;
    double weights = 0;
    if (!(numbers >> step >> loss >> alone >> gradients >> weights)) continue;
    CHECK(step == ++steps);
    CHECK(loss == Approx(alone).margin(1e-6));
    CHECK(gradients <= 1e-6);
    CHECK(weights <= 1e-6);
    if (step == 1) first_loss = loss;
    last_loss = loss;
  }
  CHECK(steps == 16);
  CHECK(last_loss < first_loss / 2);
}

}  // namespace
}  // namespace levin::test
