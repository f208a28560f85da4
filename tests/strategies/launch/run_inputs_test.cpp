#include "levin/strategies/launch/run_inputs.h"

#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "levin/core/base/error.h"
#include "levin/strategies/launch/cluster_environment.h"

using levin::ClusterEnvironment;
using levin::RunInputs;

namespace {

/// What a rank gets from a launcher that has read these texts.
RunInputs handed_down(const std::vector<std::pair<std::string, std::string>>& texts) {
  RunInputs launcher{ClusterEnvironment{}};
  for (const auto& [name, text] : texts) launcher.keep(name, text);
  ClusterEnvironment environment;
  environment.inputs_fd = launcher.to_file();
  return RunInputs(environment);
}

}  // namespace

TEST_CASE("a rank takes the texts that its launcher has read, each once, in their order") {
  const std::string any_bytes("\xff\0\n", 3);
  RunInputs rank = handed_down({{"/dev/stdin", "first"}, {"run.yaml", "a: 1\n"}, {"/dev/stdin", ""}, {"\xfe", any_bytes}});
  CHECK(rank.find("/dev/stdin") == std::nullopt);
  CHECK(rank.take("/dev/stdin") == "first");
  CHECK(rank.find("/dev/stdin") == "first");
  CHECK(rank.take("/dev/stdin") == "");
  CHECK(rank.take("/dev/stdin") == std::nullopt);
  CHECK(rank.take("run.yaml") == "a: 1\n");
  CHECK(rank.take("other.yaml") == std::nullopt);
  CHECK(rank.take("\xfe") == any_bytes);
}

TEST_CASE("all ranks read the one file that they inherit, and none keeps it open") {
  RunInputs launcher{ClusterEnvironment{}};
  const std::string large(300'000, 'x');
  launcher.keep("run.yaml", large);
  const int file = *launcher.to_file();
  CHECK(file > 2);
  for (int rank = 0; rank < 2; ++rank) {
    ClusterEnvironment environment;
    environment.inputs_fd = dup(file);
    CHECK(RunInputs(environment).take("run.yaml") == large);
    CHECK(fcntl(*environment.inputs_fd, F_GETFD) == -1);
  }
  close(file);
}

TEST_CASE("a program that has read nothing hands nothing down, and outside of a launcher's rank nothing is taken") {
  RunInputs alone{ClusterEnvironment{}};
  CHECK(alone.to_file() == std::nullopt);
  alone.keep("run.yaml", "a: 1\n");
  CHECK(alone.take("run.yaml") == std::nullopt);
  CHECK(alone.find("run.yaml") == "a: 1\n");
}

TEST_CASE("a file of something else is refused") {
  ClusterEnvironment environment;
  environment.inputs_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  CHECK_THROWS_AS(RunInputs(environment), levin::IoError);
}
