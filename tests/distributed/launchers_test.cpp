// Launchers other than levin's, as installed here: missing ones are reported and not tested.
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "distributed/start_run.h"
#include "levin/core/base/process.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

void check_under(const std::vector<std::string>& launcher, const Environment& environment = {}) {
  const TemporaryFolder folder;
  const Outcome outcome = run(under(launcher, start_command(folder.path(), {"ranks=2"}, environment)));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.out, Catch::Contains("ranks: 2 (ddp, metrics over shared memory, gradients over shared memory)"));
  CHECK(left_by(folder.path()) == left_undisturbed());
}

/// Two ranks that a user starts without a launcher; the second has more settings.
std::vector<Outcome> by_hand(const std::filesystem::path& folder, const std::vector<std::string>& more = {}) {
  const std::string port = std::to_string(free_port());
  std::vector<Command> commands;
  for (const char* rank : {"0", "1"}) {
    std::vector<std::string> settings = {"ranks=2"};
    if (*rank == '1') settings.insert(settings.end(), more.begin(), more.end());
    commands.push_back(with_own_threads(start_command(
        folder, settings,
        {{"RANK", rank}, {"LOCAL_RANK", rank}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}})));
  }
  return run_together(commands);
}

std::string threads_text(int threads) {
  return "device cpu (" + std::to_string(threads) + (threads == 1 ? " thread)" : " threads)");
}

}  // namespace

TEST_CASE("ranks that a person starts divide the cores of their host") {
  const TemporaryFolder folder;
  const std::vector<Outcome> outcomes = by_hand(folder.path());
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.text());
    CHECK(outcome.ok());
    CHECK_THAT(outcome.out, Catch::Contains(threads_text(std::max(1, usable_cores() / 2))));
  }
}

TEST_CASE("ranks that are started with different options end with one status, and name the option") {
  const TemporaryFolder folder;
  const std::string option = GENERATE("epochs=3", "save_every=5");
  const std::vector<Outcome> outcomes = by_hand(folder.path(), {option});
  const std::string text = text_of(outcomes);
  INFO(text);
  for (const Outcome& outcome : outcomes) CHECK(outcome.status == 2);
  CHECK_THAT(text, Catch::Contains("Ranks were started with different options. Rank 0 has `"));
  CHECK_THAT(text, Catch::Contains(option == "epochs=3" ? "`trainer.max_epochs: 2`, rank 1 has `trainer.max_epochs: 3`"
                                                        : "every_n_train_steps: 3`, rank 1 has `"));
  CHECK_THAT(text, !Catch::Contains("(line "));
}

TEST_CASE("ranks that mpirun binds to a core each are not told that they share one, and two such jobs run side by side") {
  if (!has_program("mpirun")) return;
  if (usable_cores() < 2) {
    WARN("not tested: there is one core");
    return;
  }
  const TemporaryFolder folder;
  const TemporaryFolder other;
  std::vector<Command> jobs;
  for (const auto& path : {folder.path(), other.path()}) {
    // Two that begin at once compete for mpirun's folder if it does not exist yet.
    const Environment environment = {
        {"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}, {"TMPDIR", path.string()}};
    jobs.push_back(
        with_own_threads(under({"mpirun", "-np", "2", "--bind-to", "core"}, start_command(path, {"ranks=2"}, environment))));
  }
  for (const Outcome& outcome : run_together(jobs)) {
    INFO(outcome.text());
    CHECK(outcome.ok());
    CHECK_THAT(outcome.text(), !Catch::Contains("share 1 core"));
    CHECK_THAT(outcome.out, Catch::Contains(threads_text(1)));
  }
}

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
