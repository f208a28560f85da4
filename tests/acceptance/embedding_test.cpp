#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <vector>

#include "support/file_text.h"
#include "support/program.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

/// Runs the application that embeds levin.
Outcome embedded(const std::string& scenario, const fs::path& folder) {
  return run({.arguments = {LEVIN_BINARY_DIR "/bin/embedding_program", scenario, folder.string()},
              .folder = folder,
              .environment = {{"OMP_NUM_THREADS", "1"}}});
}

/// The lines of the application's log.
std::vector<std::string> log_of(const Outcome& outcome) {
  const std::string mark = "log: ";
  std::vector<std::string> lines;
  std::istringstream text(outcome.out);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with(mark)) lines.push_back(line.substr(mark.size()));
  }
  return lines;
}

/// The same, of a run that ends well and prints nothing on standard error.
std::vector<std::string> log_of_good_run(const std::string& scenario) {
  const TemporaryFolder folder;
  const Outcome outcome = embedded(scenario, folder.path());
  INFO(outcome.text());
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, StartsWith("main\n") && Catch::EndsWith("at exit\n"));
  return log_of(outcome);
}

using Lines = std::vector<std::string>;

TEST_CASE("embedded, an error is told once, by what is thrown, with its place") {
  const Lines log = log_of_good_run("errors");
  REQUIRE(log.size() == 3);
  CHECK(log[0] == "failed in training_step (train, epoch 0, step 3): the disk is gone");
  CHECK(log[1] == "failed in training_step (train, epoch 0, step 5): no such camera");
  CHECK_THAT(log[2], StartsWith("failed in training_step (train, epoch 0, step 0): ") && Contains("(2x3 and 2x3)"));
}

TEST_CASE("another thread stops a run, at any time, and the next one is not stopped") {
  CHECK(log_of_good_run("cancel") == Lines{"the client has gone", "max_epochs=2 reached after 64 steps"});
}

TEST_CASE("a callback tells an application how far it is") {
  CHECK(log_of_good_run("progress") == Lines{"epoch 0: it learns", "epoch 1: it learns"});
}

TEST_CASE("a sink gets what levin tells, with level and place, and standard output gets nothing") {
  const TemporaryFolder folder;
  const Outcome outcome = embedded("sink", folder.path());
  INFO(outcome.text());
  REQUIRE(outcome.status == 0);
  CHECK(outcome.err.empty());
  const Lines log = log_of(outcome);
  const auto has = [&](const std::string& line) { return std::find(log.begin(), log.end(), line) != log.end(); };
  CHECK(has("warning in training_step (train, epoch 0, step 3): watch out"));
  CHECK(has("info: from another thread"));
  CHECK(has("info between hooks (train, epoch 2, step 64): Training stopped: max_epochs=2 reached."));
  CHECK(std::any_of(log.begin(), log.end(), [](const auto& line) {
    return line.starts_with("info in on_train_epoch_end (train, epoch 1, step 64): Epoch 1: 32/32 [");
  }));
  std::istringstream lines(outcome.out);
  Lines others;
  for (std::string line; std::getline(lines, line);) {
    // A message of several lines goes on without the mark: the table of the model, the devices.
    if (line == "on standard output again" || line == "main" || line == "at exit") others.push_back(line);
  }
  CHECK(others == Lines{"main", "on standard output again", "at exit"});
}

TEST_CASE("with log_level none nothing is printed") {
  const TemporaryFolder folder;
  const Outcome outcome = embedded("quiet", folder.path());
  INFO(outcome.text());
  CHECK(outcome.status == 0);
  CHECK(outcome.out == "main\nat exit\n");
  CHECK(outcome.err.empty());
}

TEST_CASE("several Trainers train one after another and beside one another") {
  CHECK(log_of_good_run("several") == Lines{"64 and 64 steps"});
}

TEST_CASE("embedded, levin takes no signal and no setting of malloc unless asked to") {
  CHECK(log_of_good_run("takes_nothing") == Lines{"0 settings of malloc"});
  const Lines asked = log_of_good_run("takes_what_it_is_asked_to");
  REQUIRE(asked.size() == 3);
  CHECK(asked[0] == "taken: SIGINT SIGSEGV malloc");  // SIGTERM is the application's
  CHECK_THAT(asked[1], StartsWith("Stopped by signal 10 (User defined signal 1) "));
  CHECK(asked[2] == "all given back");
}

TEST_CASE("the application's handler gets its signal while a run goes on") {
  const TemporaryFolder folder;
  const Outcome outcome = embedded("gets_its_signals", folder.path());
  INFO(outcome.text());
  CHECK(outcome.status == 0);
  CHECK_THAT(outcome.out, Contains("handler: SIGTERM\n") && Contains("log: SIGTERM\n"));
}

TEST_CASE("exit() while a run goes on in another thread has its own status, and nobody is blamed") {
  const std::string scenario = GENERATE("exits", "exits_beside_workers");
  for (int attempt = 0; attempt < 5; ++attempt) {
    const TemporaryFolder folder;
    const Outcome outcome = embedded(scenario, folder.path());
    INFO(outcome.text());
    REQUIRE(outcome.status == 0);
    CHECK(outcome.err.empty());
    CHECK_THAT(outcome.out, Catch::EndsWith("at exit\n"));
  }
}

TEST_CASE("a static object of the application ends its run when exit() destroys it") {
  const TemporaryFolder folder;
  const Outcome outcome = embedded("exits_with_server", folder.path());
  INFO(outcome.text());
  CHECK(outcome.status == 0);
  CHECK(outcome.err.empty());
  CHECK_THAT(outcome.out, Contains("the server has joined its thread\n"));
}

TEST_CASE("exit() waits for the checkpoints that are being written") {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const TemporaryFolder folder;
    const Outcome outcome = embedded("exits_while_writing", folder.path());
    INFO(outcome.text());
    REQUIRE(outcome.status == 3);
    CHECK(outcome.err.empty());
    CHECK(fs::exists(folder / "one.ckpt"));
    CHECK(fs::exists(folder / "last.ckpt"));
  }
}

TEST_CASE("a crash of another thread is the application's, and no hook is blamed") {
  const TemporaryFolder folder;
  const Outcome handled = embedded("crash", folder.path());
  INFO(handled.text());
  CHECK(handled.status == 77);
  CHECK_THAT(handled.out, Contains("handler: SIGSEGV\n"));
  CHECK(handled.err.empty());
  const Outcome by_default = embedded("crash_by_default", folder.path());
  INFO(by_default.text());
  CHECK(by_default.status == 139);
  CHECK(by_default.err.empty());
}

TEST_CASE("under run_main, too, only the thread of the hooks is blamed") {
  const TemporaryFolder folder;
  const Outcome crash = embedded("crash_of_own_process", folder.path());
  INFO(crash.text());
  CHECK(crash.status == 139);
  CHECK_THAT(crash.err, Contains("rank 0 crashed with SIGSEGV in a thread that runs no hooks; its calls"));
  CHECK_THAT(crash.err, !Contains("training_step ("));
  const Outcome exit = embedded("exit_of_own_process", folder.path());
  INFO(exit.text());
  CHECK(exit.status == 1);
  CHECK_THAT(exit.err, Contains("levin: exit(0) was called by a thread that runs no hooks, in the middle of the run"));
}

TEST_CASE("several devices without permission are an error before anything starts, which names the ways") {
  const Lines log = log_of_good_run("devices_without_permission");
  REQUIRE(log.size() == 1);
  CHECK_THAT(log[0], StartsWith("devices: 2: ") && Contains("levin::run_main()") && Contains("levin::launch()") &&
                         Contains("torchrun") && Contains("mpirun") && Contains("`levin fit`"));
}

TEST_CASE("launch() starts ranks, and gives their end to the application, which goes on") {
  const TemporaryFolder folder;
  const Outcome outcome = embedded("launch", folder.path());
  INFO(outcome.text());
  REQUIRE(outcome.status == 0);
  const Lines log = log_of(outcome);
  // Ranks of a later call come by what stands between the calls, too.
  for (const char* line : {"rank 0 of 2 is done", "rank 1 of 2 is done", "the application goes on",
                           "1, rank 1 failed in training_step (train, epoch 0, step 3): the disk is gone",
                           "Stopped by signal 10 (User defined signal 1) in all ranks.", "64 steps", "all given back"}) {
    INFO(line);
    CHECK(std::find(log.begin(), log.end(), line) != log.end());
  }
  CHECK(std::count(log.begin(), log.end(), "rank 0 of 2 is done") == 1);
  CHECK_THAT(outcome.out, Catch::EndsWith("at exit\n"));
}

// ---- The page ---------------------------------------------------------------------------------------------------------------

std::string without_indent(const std::string& text) {
  std::istringstream lines(text);
  std::string all;
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    all += line + "\n";
  }
  return all;
}

TEST_CASE("the code on the page of embedding is what the application runs") {
  const std::string page = read_text(LEVIN_SOURCE_DIR "/docs/embedding.md");
  const std::string program = without_indent(read_text(LEVIN_SOURCE_DIR "/tests/acceptance/programs/embedding.cpp"));
  const std::string begin = "```cpp\n";
  int blocks = 0;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    const std::size_t start = at + begin.size();
    const std::string block = page.substr(start, page.find("```", start) - start);
    INFO(block);
    CHECK(program.find(without_indent(block)) != std::string::npos);
    ++blocks;
  }
  CHECK(blocks >= 5);
}

}  // namespace
}  // namespace levin::test
