// Launchers that are not levin's, as they are installed here: what is missing is said, and not tested.
#include <unistd.h>
#include <catch2/catch.hpp>

#include "distributed/start_run.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

/// The same run under levin's own launcher.
Left under_levin() {
  const TemporaryFolder folder;
  const Outcome outcome = run(start_command(folder.path(), {"ranks=2"}));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return left_by(folder.path());
}

void check_under(const std::vector<std::string>& launcher, const Environment& environment = {}) {
  const TemporaryFolder folder;
  const Outcome outcome = run(under(launcher, start_command(folder.path(), {"ranks=2"}, environment)));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.out, Catch::Contains("ranks: 2 (ddp, metrics over shared memory, gradients over shared memory)"));
  CHECK(left_by(folder.path()) == under_levin());
}

}  // namespace

TEST_CASE("ranks that Open MPI's mpirun starts train together") {
  if (!has_program("mpirun")) return;
  // It refuses root, and binds ranks to cores of which there may be one.
  check_under({"mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none"},
              {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
}

TEST_CASE("ranks that torchrun starts train together") {
  const Command command = torchrun();
  if (!command.arguments.empty()) check_under(command.arguments, command.environment);
}

}  // namespace levin::test
