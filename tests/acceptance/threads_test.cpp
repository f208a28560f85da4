#include <algorithm>
#include <catch2/catch.hpp>

#include "acceptance/digits_run.h"
#include "levin/core/base/process.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using Catch::Matchers::Contains;
using Environment = std::vector<std::pair<std::string, std::string>>;

int count(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// What OpenMP says about itself when a program loads it, once for each process.
std::string openmp_settings(const std::vector<std::string>& arguments, Environment environment) {
  environment.insert(
      environment.begin(),
      {{"OMP_DISPLAY_ENV", "VERBOSE"}, {"OMP_WAIT_POLICY", ""}, {"GOMP_SPINCOUNT", ""}, {"OMP_NUM_THREADS", "1"}});
  const Outcome outcome = run({.arguments = arguments, .environment = environment});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return outcome.err;
}

TEST_CASE("OpenMP's threads wait for a short time only, unless the user has chosen how they wait") {
  const std::vector<std::string> version = {levin_program(), "--version"};
  CHECK_THAT(openmp_settings(version, {}), Contains("GOMP_SPINCOUNT = '300'"));
  CHECK_THAT(openmp_settings(version, {{"GOMP_SPINCOUNT", "77"}}), Contains("GOMP_SPINCOUNT = '77'"));
  CHECK_THAT(openmp_settings(version, {{"OMP_WAIT_POLICY", "passive"}}), Contains("GOMP_SPINCOUNT = '0'"));
}

TEST_CASE("the ranks of a user's own program wait for a short time only") {
  const TemporaryFolder folder;
  const std::string settings =
      openmp_settings({LEVIN_BINARY_DIR "/bin/printing_program", "2", "dataset", folder.path().string(), "info"}, {});
  CHECK(count(settings, "GOMP_SPINCOUNT = '300'") == 2);
}

TEST_CASE("trainer.threads goes before OMP_NUM_THREADS, for each rank") {
  const TemporaryFolder folder;
  for (const int ranks : {1, 2}) {
    for (const int threads : {1, 3}) {
      const Outcome fit =
          digits("fit", folder.path(),
                 {"--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--trainer.devices=" + std::to_string(ranks),
                  "--trainer.threads=" + std::to_string(threads)});
      INFO(fit.text());
      REQUIRE(fit.ok());
      CHECK(count(fit.out, threads == 1 ? "device cpu (1 thread)" : "device cpu (3 threads)") == ranks);
    }
  }
}

TEST_CASE("ranks share the cores among their threads") {
  const TemporaryFolder folder;
  const int cores = levin::usable_cores();
  for (const auto& [chosen, threads] :
       std::vector<std::pair<std::string, int>>{{"", std::max(1, cores / 2)}, {"2", std::min(2, cores)}}) {
    const Outcome fit = run({.arguments = {levin_program(), "fit", "--config", digits_config(), "--trainer.max_epochs=1",
                                           "--trainer.accelerator=cpu", "--trainer.devices=2", "--trainer.threads=null",
                                           "--trainer.default_root_dir=" + folder.path().string()},
                             .environment = {{"OMP_NUM_THREADS", chosen}}});
    INFO(fit.text());
    REQUIRE(fit.ok());
    CHECK(count(fit.out, "device cpu (" + std::to_string(threads) + (threads == 1 ? " thread)" : " threads)")) == 2);
  }
}

}  // namespace
}  // namespace levin::test
