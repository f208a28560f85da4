// Checkpoints that are written while training goes on, and what happens to them when the run is killed or the disk fails.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "acceptance/saving_fit.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// Digits that save after every step, below FOLDER.
std::vector<std::string> saving_each_step(const fs::path& folder, const std::vector<std::string>& more) {
  return saving_fit(folder, "every_n_train_steps: 1, save_last: true", more);
}

struct Found {
  int whole = 0;
  int temporary = 0;
  std::vector<std::string> damaged;
};

Found checkpoints_in(const fs::path& folder) {
  Found found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.path().extension() != ".ckpt") {
      ++found.temporary;
      continue;
    }
    try {
      Checkpoint::load(entry.path());
      ++found.whole;
    } catch (const std::exception& error) {
      found.damaged.emplace_back(error.what());
    }
  }
  return found;
}

bool has_checkpoint(const fs::path& folder) { return checkpoints_in(folder).whole > 0; }

TEST_CASE("a run that saves every step and is killed at any instant leaves a whole checkpoint") {
  const TemporaryFolder folder;
  std::mt19937_64 random(11);
  const int kills = is_whole_matrix() ? 500 : 8;
  const Command command{.arguments = saving_each_step(folder.path(), {"--trainer.max_epochs=-1"}),
                        .environment = {{"OMP_NUM_THREADS", "1"}},
                        .copied = true};
  for (int round = 0; round < kills; ++round) {
    Started run(command);
    while (!has_checkpoint(folder / "kept")) usleep(1000);
    usleep(static_cast<useconds_t>(random() % 60000));  // The instant is what varies; nothing is waited for.
    kill(-run.process(), SIGKILL);
    REQUIRE(run.wait() == 128 + SIGKILL);
    const Found found = checkpoints_in(folder / "kept");
    INFO("after kill " << round);
    REQUIRE(found.damaged == std::vector<std::string>{});
    REQUIRE(found.whole >= 1);
    REQUIRE(found.temporary <= 1);
  }
  const Outcome last = run({.arguments = saving_each_step(folder.path(), {"--trainer.max_steps=3"}),
                            .environment = {{"OMP_NUM_THREADS", "1"}},
                            .copied = true});
  INFO(last.text());
  REQUIRE(last.ok());
  CHECK(checkpoints_in(folder / "kept").temporary == 0);
}

/// Digits on so many ranks that save after every step into a folder in which a call fails as failing_calls.cpp says.
Command with_fault(const TemporaryFolder& folder, int ranks, const std::string& error, const std::string& at,
                   const std::string& max_steps) {
  return {.arguments = saving_each_step(folder.path(),
                                        {"--trainer.max_steps=" + max_steps, "--trainer.devices=" + std::to_string(ranks)}),
          .environment = {{"OMP_NUM_THREADS", "1"},
                          {"LD_PRELOAD", LEVIN_BINARY_DIR "/tests/libfailing_calls.so"},
                          {"LEVIN_FAULT_FOLDER", (folder / "kept").string()},
                          {"LEVIN_FAULT_ERRNO", error},
                          {"LEVIN_FAULT_MARK", (folder / "fault").string()},
                          {"LEVIN_FAULT_AT", at}},
          .copied = true};
}

TEST_CASE("a call that fails while a checkpoint is written ends all ranks with path and cause, and the file before is whole") {
  const int ranks = GENERATE(1, 2);
  const int error = GENERATE(ENOSPC, EIO);
  const std::string cause = std::strerror(error);
  const bool whole = is_whole_matrix();
  int failed = 0;
  bool has_call = true;
  // Until all the calls of a run have had their turn.
  for (int call = whole ? 1 : error == EIO ? 9 : 5; has_call; call += whole ? 1 : 23) {
    const TemporaryFolder folder;
    const Outcome outcome = run(with_fault(folder, ranks, std::to_string(error), std::to_string(call), "3"));
    INFO("call " << call << " on " << ranks << " ranks\n" << outcome.text());
    const Found found = checkpoints_in(folder / "kept");
    CHECK(found.damaged == std::vector<std::string>{});
    CHECK(found.temporary == 0);
    has_call = fs::exists(folder / "fault");
    if (outcome.ok()) {
      // What looks for abandoned files, or reads an old one, continues without it. It is unknown whether an old file that
      // cannot be read is a checkpoint.
      const bool left_one = outcome.err.find("stays: levin did not write it") != std::string::npos;
      CHECK(found.whole == (left_one ? 3 : 2));
      continue;
    }
    ++failed;
    CHECK(outcome.status == 1);
    CHECK_THAT(outcome.err, Catch::Contains(cause) && Catch::Contains((folder / "kept").string()));
    if (ranks == 2) CHECK_THAT(outcome.err, Catch::Contains("rank 1 ended"));
    // The first two files take less: from then on there is one before.
    if (call > 60) CHECK(found.whole >= 1);
  }
  CHECK(failed > (whole ? 100 : 4));
}

TEST_CASE("signals end a run whose checkpoints lie where nothing answers: Ctrl-C the second time, SIGTERM ten seconds later") {
  const int ranks = GENERATE(1, 2);
  const int signal = GENERATE(SIGINT, SIGTERM);
  const TemporaryFolder folder;
  const int out = open((folder / "out").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  Started run(with_fault(folder, ranks, "hang", "40", "9"), out, out);
  close(out);
  for (int looks = 0; looks < 3000 && !fs::exists(folder / "fault"); ++looks) usleep(10'000);
  REQUIRE(fs::exists(folder / "fault"));
  kill(run.process(), signal);
  CHECK_FALSE(run.wait(std::chrono::milliseconds(signal == SIGINT ? 1000 : 10500)));
  kill(run.process(), signal);
  const auto status = run.wait(std::chrono::seconds(20));
  const std::string text = read_text(folder / "out");
  INFO(ranks << " ranks, signal " << signal << "\n" << text);
  REQUIRE(status);
  // What SIGTERM has asked for is not done: the step that waited could not be saved.
  CHECK(*status == (signal == SIGINT ? 128 + signal : 1));
  if (signal == SIGTERM) CHECK_THAT(text, Catch::Contains("a second signal came during the wait for its file system"));
  if (signal == SIGTERM) CHECK_THAT(text, Catch::Contains("Waiting for '"));
  const Found found = checkpoints_in(folder / "kept");
  CHECK(found.damaged == std::vector<std::string>{});
  CHECK(found.whole >= 1);
}

}  // namespace
}  // namespace levin::test
