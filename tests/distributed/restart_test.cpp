// Runs whose ranks are started again after a failure.
#include <catch2/catch.hpp>
#include <fstream>
#include <random>

#include "distributed/failure_run.h"
#include "distributed/start_run.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"
#include "support/whole_matrix.h"

namespace levin::test {
namespace {

/// A run of start_program in its own folder.
struct Run {
  explicit Run(const std::vector<std::string>& settings) : outcome(run(start_command(folder.path(), settings))) {}
  bool left(const std::string& file) const { return std::filesystem::exists(folder / file); }
  int versions() const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "logs")) count += entry.is_directory() ? 1 : 0;
    return count;
  }

  TemporaryFolder folder;
  Outcome outcome;
};

const Left& undisturbed() {
  static const Left left = left_undisturbed();
  return left;
}

/// Twelve steps a rank, six an epoch.
constexpr int kSteps = 12;

void check_equals_undisturbed(const Run& run, int restarts) {
  INFO(run.outcome.text());
  REQUIRE(run.outcome.ok());
  CHECK(run.versions() == 1);
  CHECK(left_by(run.folder.path()) == undisturbed());
  CHECK(count(run.outcome.err, "levin: restarting the run, attempt ") == restarts);
}

}  // namespace

TEST_CASE("whichever rank is killed, one of the others says how to resume the run") {
  const std::string text = "To resume from the newest checkpoint, give it as ckpt_path: ";
  const std::string async = GENERATE("async=1", "async=0");
  for (const std::string rank : {"0", "1", "2"}) {
    const Run run({"ranks=3", async, "fail=0:" + rank + ":8:sigkill_saved"});
    INFO(run.outcome.text());
    CHECK(run.outcome.status == 128 + 9);
    REQUIRE(count(run.outcome.out, text) == 1);
    CHECK(count(run.outcome.out, (rank == "0" ? "[rank 1] " : "") + text) == 1);
    const std::size_t begin = run.outcome.out.find(text) + text.size();
    const std::string file = run.outcome.out.substr(begin, run.outcome.out.find('\n', begin) - begin);
    CHECK(run.left(file));
  }
  const Run throws({"ranks=3", "fail=0:0:6:throw"});
  CHECK(count(throws.outcome.out, text) == 1);
}

TEST_CASE("a run whose ranks are killed ends as one that nobody disturbed, to the bit") {
  // With LEVIN_MATRIX=all many such runs, at random steps; otherwise two.
  const int runs = is_whole_matrix() ? 40 : 2;
  std::mt19937 random(20);
  for (int number = 0; number < runs; ++number) {
    std::string failures;
    const int restarts = 1 + number % 3;
    for (int attempt = 0; attempt < restarts; ++attempt) {
      const std::vector<std::string> manners = {"sigkill", "throw", "abort", "exit"};
      // Later attempts begin later, and fail only where they come.
      const auto step = static_cast<int>(random() % 4) + 1 + 4 * attempt;
      failures += (attempt == 0 ? "" : ",") + std::to_string(attempt) + ":" + std::to_string(random() % 2) + ":" +
                  std::to_string(std::min(step, kSteps)) + ":" + manners[random() % manners.size()];
    }
    INFO("fail=" << failures);
    check_equals_undisturbed(Run({"ranks=2", "max_restarts=3", "fail=" + failures}), restarts);
  }
}

TEST_CASE("a run that a signal stopped in an epoch ends, resumed, with the bits of one that was not") {
  const int ranks = GENERATE(2, 4);
  const std::string of_ranks = "ranks=" + std::to_string(ranks);
  const Run whole({of_ranks, "save_every=0"});
  REQUIRE(whole.outcome.ok());
  // The second of six or three steps of the second epoch.
  const std::string step = ranks == 2 ? "8" : "5";
  const Run stopped({of_ranks, "save_every=0", "save_on_exception=1", "fail=0:1:" + step + ":sigterm"});
  INFO(stopped.outcome.text());
  REQUIRE(stopped.outcome.status == 128 + 15);
  std::string file;
  for (const auto& entry : std::filesystem::directory_iterator(stopped.folder / "logs/version_0/checkpoints"))
    if (entry.path().extension() == ".ckpt") file = entry.path().string();
  const Run resumed({of_ranks, "save_every=0", "ckpt=" + file});
  INFO(resumed.outcome.text());
  REQUIRE(resumed.outcome.ok());
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string weights = "weights_" + std::to_string(rank);
    CHECK(read_text(resumed.folder / weights) == read_text(whole.folder / weights));
  }
}

TEST_CASE("an attempt is reported on the console and in hparams.yaml, and says from where it resumes") {
  const Run run({"ranks=2", "max_restarts=2", "fail=0:1:5:sigkill"});
  check_equals_undisturbed(run, 1);
  CHECK_THAT(run.outcome.err, Catch::Contains("levin: rank 1 failed in training_step (train, epoch 0, step 4): its process was "
                                              "killed by signal 9 (Killed)\n"));
  CHECK_THAT(run.outcome.err, Catch::Contains("levin: restarting the run, attempt 2 of 3, because rank 1 failed in "
                                              "training_step (train, epoch 0, step 4)\n"));
  CHECK_THAT(run.outcome.out,
             Catch::Contains(", attempt 2\n") && Catch::Contains("fit resumes from ") && Catch::Contains("(epoch 0, step 3)"));
  CHECK_THAT(read_text(run.folder / "logs/version_0/hparams.yaml"), Catch::Contains("restarted_at_steps:\n  - 3\n"));
}

TEST_CASE("a run without a whole checkpoint starts again from the beginning, in the same folder, and says so") {
  const Run run({"ranks=2", "max_restarts=1", "save_every=8", "fail=0:0:5:sigkill"});
  check_equals_undisturbed(run, 1);
  CHECK_THAT(run.outcome.out, Catch::Contains("No whole checkpoint was written before: fit starts again from the beginning\n"));
}

TEST_CASE("a damaged newest checkpoint is passed over") {
  // The first attempt, before it ends, truncates the file of step 6 that the second one finds.
  const Run run({"ranks=2", "max_restarts=1", "async=0", "fail=0:0:8:damage_newest"});
  check_equals_undisturbed(run, 1);
  CHECK_THAT(run.outcome.err, Catch::Contains("Skipping a damaged checkpoint while looking for the newest"));
  CHECK_THAT(run.outcome.out, Catch::Contains("(epoch 0, step 3)"));
}

TEST_CASE("what would fail again, or was requested, is not started again") {
  const auto [failure, status, reason] = GENERATE(table<std::string, int, std::string>({
      {"0:1:2:config_error", 2, "the error is in the configuration or the program, and would recur"},
      {"0:all:0:throw", 1, "all ranks failed with the same error before the first step"},
      {"0:1:3:sigterm", 143, ""},
      {"0:1:3:sigkill,1:1:5:sigkill", 137, "max_restarts=1 is used up"},
  }));
  const Run run({"ranks=2", "max_restarts=1", "fail=" + failure});
  INFO(failure << "\n" << run.outcome.text());
  CHECK(run.outcome.status == status);
  CHECK(count(run.outcome.err, "no restart") == (reason.empty() ? 0 : 1));
  if (!reason.empty()) CHECK_THAT(run.outcome.err, Catch::Contains("levin: no restart: " + reason + "\n"));
}

TEST_CASE("an error of one rank alone before the first step is worth another attempt, and so is a single rank's end") {
  const auto [ranks, failure] = GENERATE(table<std::string, std::string>({{"2", "0:1:0:throw"}, {"1", "0:0:5:sigkill"}}));
  const Run run({"ranks=" + ranks, "max_restarts=1", "fail=" + failure});
  INFO(run.outcome.text());
  CHECK(run.outcome.ok());
  CHECK(count(run.outcome.err, "levin: restarting the run, attempt 2 of 2") == 1);
}

TEST_CASE("a run continues with fewer ranks when devices are gone, down to min_devices") {
  const auto [min_devices, is_enough] = GENERATE(table<int, bool>({{1, true}, {2, false}}));
  const TemporaryFolder folder;
  const std::string count_file = (folder / "devices").string();
  std::ofstream(count_file) << 2;
  const std::string manner = "take_device=" + count_file;
  Command command = start_command(folder.path(), {"ranks=2", "max_restarts=1", "min_devices=" + std::to_string(min_devices),
                                                  "toy=" + count_file, "fail=0:1:5:" + manner});
  command.copied = false;  // a single rank executes the program again, with the arguments of its process
  const Outcome outcome = levin::test::run(command);
  INFO(outcome.text());
  CHECK_THAT(outcome.err, Catch::Contains("toy device 1") && Catch::Contains("does not exist; visible are 0"));
  CHECK(outcome.ok() == is_enough);
  CHECK(std::filesystem::exists(folder / "weights_0") == is_enough);
  const int times = is_enough ? 1 : 0;
  CHECK(count(outcome.err, "levin: the run continues with 1 rank, because the others' devices are gone (min_devices=1)") ==
        times);
  CHECK(count(outcome.out, "ranks: 1 (ddp") == times);
}

TEST_CASE("options of restarts that make no sense are refused before anything starts") {
  const auto [settings, text] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"min_devices=1"}, "min_devices is for restarts: set max_restarts too"},
      {{"max_restarts=1", "min_devices=3"}, "min_devices: 3 is above devices, which are 2"},
      {{"max_restarts=1", "min_devices=1", "num_nodes=2"}, "min_devices works on one host only"},
  }));
  const Run run(settings);
  INFO(run.outcome.text());
  CHECK(run.outcome.status == 2);
  CHECK_THAT(run.outcome.err, Catch::Contains(text));
}

TEST_CASE("under torchrun a run resumes by its restart count, from what its agent's store holds") {
  const Command launcher = torchrun();
  if (launcher.arguments.empty()) return;
  const TemporaryFolder folder;
  std::vector<std::string> arguments = launcher.arguments;
  arguments.emplace_back("--max-restarts=1");
  const Outcome outcome =
      levin::test::run(under(arguments, start_command(folder.path(), {"ranks=2", "fail=0:1:8:sigkill"}, launcher.environment)));
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  CHECK_THAT(outcome.out, Catch::Contains(", attempt 2\n") && Catch::Contains("(epoch 0, step 6)"));
  CHECK(left_by(folder.path()) == undisturbed());
}

}  // namespace levin::test
