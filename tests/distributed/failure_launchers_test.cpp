// Failures and signals around the start of ranks: levin's own launcher, and ranks of another one.
#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <ctime>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>

#include "distributed/failure_run.h"
#include "levin/core/checkpoint/checkpoint.h"
#include "strategies/support/child_program.h"
#include "strategies/support/odd_listener.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

using levin_test::all_gone;
using levin_test::ChildProgram;
using levin_test::free_port;

constexpr int kRanks = 4;
constexpr double kCrashSeconds = 5;

// ---- Ranks of another launcher ----------------------------------------------------------------------------------------------

/// The part of $TORCHELASTIC_ERROR_FILE that torchrun reads.
struct ErrorFile {
  std::string message;
  std::int64_t seconds;  ///< since 1970
};

/// failure_program as torchrun would start it, without an agent that would end the ranks.
struct StartedRanks {
  StartedRanks(const std::string& place, const std::string& manner, int failing, const std::vector<std::string>& settings = {})
      : failing_rank(failing), ends(kRanks), outcomes(kRanks) {
    const std::string port = std::to_string(free_port());
    std::vector<std::thread> threads;
    std::atomic<int> others_left{kRanks - 1};
    for (int rank = 0; rank < kRanks; ++rank) {
      Command command =
          command_of({.place = place, .manner = manner, .rank = failing, .ranks = kRanks, .settings = settings}, folder.path());
      const Environment started = {{"RANK", std::to_string(rank)},
                                   {"LOCAL_RANK", std::to_string(rank)},
                                   {"WORLD_SIZE", std::to_string(kRanks)},
                                   {"MASTER_ADDR", "127.0.0.1"},
                                   {"MASTER_PORT", port},
                                   {"TORCHELASTIC_ERROR_FILE", error_path(rank).string()}};
      command.environment.insert(command.environment.end(), started.begin(), started.end());
      threads.emplace_back([this, command, rank, &others_left] {
        outcomes[static_cast<std::size_t>(rank)] = run(command);
        ends[static_cast<std::size_t>(rank)] = monotonic_seconds();
        if (rank == failing_rank) end_of_failing_rank = std::time(nullptr);
        // Between hosts no rank can end a stopped process: torchrun's agent would do it now.
        if (rank != failing_rank && --others_left == 0) {
          for (const int process : processes_in(folder.path())) kill(process, SIGCONT);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Outcome& outcome : outcomes) all_errors += outcome.err;
  }
  std::filesystem::path error_path(int rank) const { return folder / ("error_" + std::to_string(rank) + ".json"); }
  ErrorFile error_file(int rank) const {
    const auto message = nlohmann::json::parse(read_text(error_path(rank))).at("message");
    return {message.at("message"), std::stoll(message.at("extraInfo").at("timestamp").get<std::string>())};
  }
  const Outcome& of(int rank) const { return outcomes[static_cast<std::size_t>(rank)]; }

  int failing_rank;
  TemporaryFolder folder;
  std::vector<double> ends;
  std::int64_t end_of_failing_rank = 0;  ///< seconds since 1970, as torchrun takes it
  std::vector<Outcome> outcomes;
  std::string all_errors;
};

/// Every other rank has ended in time, with its own line.
void check_others(const StartedRanks& run, double seconds, const std::string& named_place) {
  const double failed = moment_of_failure(run.folder.path()).seconds;
  REQUIRE(failed > 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == run.failing_rank) continue;
    INFO("rank " << rank);
    const Outcome& outcome = run.of(rank);
    CHECK_FALSE(outcome.timed_out);
    CHECK(outcome.status != 0);
    CHECK(run.ends[static_cast<std::size_t>(rank)] - failed < seconds);
    CHECK(lines_about(rank, run.all_errors).size() == 1);
    const auto lines = lines_about(rank, outcome.err);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].find("because rank " + std::to_string(run.failing_rank) + " failed " + named_place) != std::string::npos);
    const std::string own = lines[0].substr(lines[0].find("rank "));
    CHECK_THAT(run.error_file(rank).message,
               Catch::StartsWith(own + "\nrank " + std::to_string(run.failing_rank) + " failed "));
  }
}

}  // namespace

TEST_CASE("ranks that levin did not start end together when one fails, with the cause named") {
  const std::string group = GENERATE("auto", "gloo");
  const std::string manner = GENERATE("throw", "abort", "sigkill", "exit");
  const int failing = GENERATE(0, 2);
  const StartedRanks run("module.training_step", manner, failing, {"control_group=" + group});
  INFO("control_group " << group << ", " << manner << " on rank " << failing << "\n" << text_of(run.outcomes));
  const std::string place = "in training_step (train, epoch 1, step 4)";
  const std::string first = "levin: rank " + std::to_string(failing) + " failed " + place + ": ";
  // Between hosts, ranks that lose the store with rank 0 cannot agree on which of them reports it first.
  const bool without_store = group == "gloo" && failing == 0 && manner != "throw";
  const int times = count(run.all_errors, "levin: rank");
  if (without_store) {
    CHECK(times >= 1);
    CHECK(times <= kRanks - 1);
    check_others(run, kCrashSeconds, "");
    return;
  }
  CHECK(times == 1);
  // Posts between hosts may be half a second old.
  const bool exact = group == "auto" || manner == "throw";
  CHECK(count(run.all_errors, exact ? first : "levin: rank " + std::to_string(failing) + " failed ") == 1);
  check_others(run, kCrashSeconds, exact ? place : "");
  // torchrun calls the earliest failure the root cause.
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank != failing) CHECK(run.error_file(rank).seconds > run.end_of_failing_rank);
  }
  CHECK(run.of(failing).status == (manner == "exit" ? 0 : expectation(manner).status));
  if (manner != "throw") return;
  CHECK(run.error_file(failing).message ==
        "rank " + std::to_string(failing) + " failed " + place + ": the sensor returned garbage");
}

TEST_CASE("an error of the user's own that sounds like a lost connection is its rank's failure, and nobody else's") {
  const std::string group = GENERATE("auto", "gloo");
  const StartedRanks run("module.training_step", "throw_gloo", 2, {"control_group=" + group});
  INFO("control_group " << group << "\n" << text_of(run.outcomes));
  const std::string place = "in training_step (train, epoch 1, step 4)";
  CHECK(count(run.all_errors, "levin: rank ") == 1);
  CHECK(count(run.all_errors, "levin: rank 2 failed " + place + ": gloo is my dog: Connection closed by peer\n") == 1);
  check_others(run, kCrashSeconds, place);
}

TEST_CASE("a stopped rank that levin did not start ends the others with the table of where all are") {
  const std::string group = GENERATE("auto", "gloo");
  const int failing = GENERATE(0, 1);
  const StartedRanks run("module.on_train_batch_start", "sigstop", failing,
                         {"control_group=" + group, "stall_report=2", "timeout=5"});
  INFO("control_group " << group << ", rank " << failing << "\n" << text_of(run.outcomes));
  CHECK(run.all_errors.find("Ranks are:") != std::string::npos);
  CHECK(run.all_errors.find("levin: rank " + std::to_string(failing) + " failed ") != std::string::npos);
  check_others(run, 5 + kCrashSeconds + 2, "");
  if (group == "auto") {
    CHECK(run.of(failing).status == 128 + SIGKILL);
    CHECK(run.all_errors.find(" stopped ") != std::string::npos);
  }
}

// ---- levin's own launcher ---------------------------------------------------------------------------------------------------

namespace {

/// A run that continues until it is stopped, and has begun its second epoch.
struct LongRun {
  LongRun() {
    program.emplace(command_of({.place = "module.on_train_epoch_start",
                                .manner = "go_on",
                                .ranks = kRanks,
                                .settings = {"max_epochs=1000000", "save_on_exception=1"}},
                               folder.path()));
    while (moment_of_failure(folder.path()).seconds == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::vector<int> ranks() const {
    std::vector<int> processes = processes_in(folder.path());
    std::erase(processes, program->process());
    return processes;
  }
  int rows() const { return count(read_text(folder / "logs/version_0/metrics.csv"), "\n"); }

  TemporaryFolder folder;
  std::optional<ChildProgram> program;
};

/// All ranks stopped at the same step, and rank 0 saved there.
void check_stopped_at_one_step(const LongRun& run, int signal) {
  const std::string output = run.program->output();
  INFO(output);
  const std::regex stop("\\nStopped by signal " + std::to_string(signal) + ".* after global step (\\d+)");
  std::vector<std::string> steps;
  for (std::sregex_iterator match(output.begin(), output.end(), stop); match != std::sregex_iterator(); ++match) {
    steps.push_back((*match)[1]);
  }
  // Each rank's program says what it caught; where the run has saved for it, and not just before, it says so once.
  const int told = count(output, " Saved its state as checkpoints/");
  CHECK(told <= 1);
  REQUIRE(steps.size() == static_cast<std::size_t>(kRanks + told));
  for (const std::string& step : steps) CHECK(step == steps[0]);
  CHECK(output.find("failed") == std::string::npos);
  bool saved = false;
  for (const auto& entry : std::filesystem::directory_iterator(run.folder / "checkpoints")) {
    const Checkpoint checkpoint = Checkpoint::load(entry.path());
    if (std::to_string(checkpoint.manifest.at("global_step").as_int()) != steps[0]) continue;
    saved = true;
    // A run that resumes from here needs every rank's random state.
    for (int rank = 0; rank < kRanks; ++rank) {
      CHECK(checkpoint.tensors.contains("rng." + std::to_string(rank) + ".cpu"));
    }
  }
  CHECK(saved);
}

}  // namespace

TEST_CASE("a signal to the launcher stops all ranks at the same step, with a checkpoint") {
  const int signal = GENERATE(SIGTERM, SIGUSR1, SIGINT);
  LongRun run;
  run.program->send(signal);
  CHECK(run.program->wait() == 128 + signal);
  check_stopped_at_one_step(run, signal);
}

TEST_CASE("a signal to any one rank stops all ranks at the same step, with a checkpoint") {
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  LongRun run;
  const std::vector<int> ranks = run.ranks();
  REQUIRE(ranks.size() == kRanks);
  kill(ranks[signal == SIGTERM ? 2 : 0], signal);
  CHECK(run.program->wait() == 128 + signal);
  check_stopped_at_one_step(run, signal);
}

TEST_CASE("no rank outlives a launcher that is killed in the middle of training") {
  LongRun run;
  const std::vector<int> ranks = run.ranks();
  REQUIRE(ranks.size() == kRanks);
  run.program->send(SIGKILL);
  CHECK(run.program->wait() == 128 + SIGKILL);
  CHECK(all_gone(ranks, std::chrono::seconds(5)));
  CHECK(damaged_files(run.folder.path(), false).empty());
}

TEST_CASE("a launcher that is stopped and goes on again does not hurt the run") {
  LongRun run;
  run.program->send(SIGSTOP);
  const int before = run.rows();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (run.rows() < before + 10 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(run.rows() >= before + 10);
  run.program->send(SIGCONT);
  run.program->send(SIGTERM);
  CHECK(run.program->wait() == 128 + SIGTERM);
  check_stopped_at_one_step(run, SIGTERM);
}

// ---- Failures that come together --------------------------------------------------------------------------------------------

namespace {

Outcome launch(const TemporaryFolder& folder, const std::string& place, const std::string& manner, int rank,
               const std::vector<std::string>& settings = {}) {
  return run(
      command_of({.place = place, .manner = manner, .rank = rank, .ranks = kRanks, .settings = settings}, folder.path()));
}

/// The rank that the first line names; -1 when there is not exactly one such line.
int first_failed_rank(const std::string& err) {
  if (count(err, "levin: rank ") != 1) return -1;
  return std::stoi(err.substr(err.find("levin: rank ") + std::string("levin: rank ").size()));
}

}  // namespace

TEST_CASE("an error that all ranks have alike is told once, and by one line for each other rank") {
  const TemporaryFolder folder;
  const Outcome outcome = launch(folder, "module.training_step", "throw", -1);
  INFO(outcome.text());
  CHECK(outcome.status == 1);
  const int first = first_failed_rank(outcome.err);
  REQUIRE(first >= 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == first) continue;
    const auto lines = lines_about(rank, outcome.err);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0] == "rank " + std::to_string(rank) + " failed with the same error in training_step (train, epoch 1, step 4)");
  }
}

TEST_CASE("of several ranks that fail at once one is first, and no error is lost") {
  const TemporaryFolder folder;
  const Outcome outcome = launch(folder, "module.training_step", "throw_own", -1);
  INFO(outcome.text());
  CHECK(outcome.status == 1);
  const int first = first_failed_rank(outcome.err);
  REQUIRE(first >= 0);
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(count(outcome.err, "sensor " + std::to_string(rank) + " returned garbage") >= 1);
    if (rank == first) continue;
    const auto lines = lines_about(rank, outcome.err);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].starts_with("rank " + std::to_string(rank) + " failed too, in training_step (train, epoch 1, step 4): "));
  }
}

TEST_CASE("a failure while another is handled does not hide the first, nor hold up the end") {
  const auto [second, status] = GENERATE(table<std::string, int>({{"throw", 1}, {"abort", 134}, {"exit", 1}, {"loop", 1}}));
  const TemporaryFolder folder;
  const Outcome outcome = launch(folder, "module.training_step", "throw", 1, {"then=" + second});
  const double seconds = monotonic_seconds() - moment_of_failure(folder.path()).seconds;
  INFO("then " << second << ", " << seconds << " s\n" << outcome.text());
  CHECK(outcome.status == status);
  CHECK(seconds < kCrashSeconds);
  CHECK(first_failed_rank(outcome.err) == 1);
  CHECK(outcome.err.find("levin: rank 1 failed in training_step (train, epoch 1, step 4): the sensor returned garbage\n") !=
        std::string::npos);
}

TEST_CASE("a rank that ends before it takes part is named, and the others do not wait for it") {
  const TemporaryFolder folder;
  const Outcome outcome = launch(folder, "main.start", "exit", 1);
  INFO(outcome.text());
  CHECK(outcome.status == 1);
  CHECK(outcome.err.find("levin: rank 1 failed before the first hook: its process ended with exit status 0 without taking part "
                         "in the run\n") != std::string::npos);
}

TEST_CASE("an error in the Trainer's constructor on one rank is told with the rank") {
  const TemporaryFolder folder;
  const Outcome outcome = launch(folder, "none", "none", 1, {"log_file=/dev/null/file"});
  INFO(outcome.text());
  CHECK(outcome.status == 1);
  CHECK_THAT(outcome.err, Catch::Contains("levin: rank 1 failed before the first hook: ") && Catch::Contains("/dev/null/file"));
  CHECK(lines_about(0, outcome.err).size() == 1);
  CHECK(lines_about(2, outcome.err).size() == 1);
}

TEST_CASE("between hosts a failure under levin's launcher looks the same") {
  const auto [manner, rank] =
      GENERATE(table<std::string, int>({{"throw", 1}, {"abort", 0}, {"sigkill", 2}, {"sigstop", 0}, {"sigterm", 1}}));
  const TemporaryFolder folder;
  const auto problems = problems_of(
      {.place = "module.training_step", .manner = manner, .rank = rank, .ranks = kRanks, .settings = {"control_group=gloo"}},
      folder.path());
  std::string text;
  for (const std::string& problem : problems) text += problem + "\n";
  INFO(manner << " on rank " << rank << "\n" << text);
  CHECK(problems.empty());
}

}  // namespace levin::test
