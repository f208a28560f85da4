#include "distributed/failure_run.h"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>

#include "levin/core/checkpoint/checkpoint.h"
#include "support/csv_table.h"
#include "support/file_text.h"

namespace levin::test {

namespace {

/// Seconds within which all processes are gone after a crash.
constexpr double kCrashSeconds = 5;
/// The launcher's grace for ranks that do not end by themselves, and what a busy machine adds.
constexpr double kStallEndSeconds = kTimeoutSeconds + 5;

/// Collects what is wrong.
struct Problems : std::vector<std::string> {
  void unless(bool good, const std::string& problem) {
    if (!good) push_back(problem);
  }
};

/// A signal that asks to stop: all ranks do, at the same step, and say so alike.
void check_orderly_stop(const FailureCase& failure, const std::string& err, Problems& problems) {
  const std::vector<std::string> stops = lines_with(err, "Stopped by signal 15");
  problems.unless(static_cast<int>(stops.size()) == failure.ranks, "not every rank says that it was stopped");
  problems.unless(std::adjacent_find(stops.begin(), stops.end(), std::not_equal_to<>()) == stops.end(),
                  "the ranks stopped at different steps");
  problems.unless(count(err, "failed") == 0, "an orderly stop is called a failure");
}

/// Removes libstdc++'s message about an uncaught object: it is written in three parts, between which lines of other ranks may
/// appear.
std::string without_terminate(const std::string& err) {
  static const std::regex kTerminate("terminate called after throwing an instance of '(int)?");
  return std::regex_replace(err, kTerminate, "");
}

void check_report(const FailureCase& failure, const Moment& moment, const std::string& err, Problems& problems) {
  const std::vector<std::string> lines = lines_of(err);
  const std::string failed = "levin: rank " + std::to_string(failure.rank) + " failed ";
  const std::string first = failed + (moment.place.empty() ? "" : "in " + moment.place + ": ");
  const auto report =
      std::find_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(first); });
  problems.unless(report != lines.end(), "no line begins with '" + first + "'");
  problems.unless(count("\n" + err, "\nlevin: rank ") == 1, "the first failure is not named exactly once");
  if (report == lines.end()) return;
  // Outside of a run the program itself prints its error, and levin knows the exit status only.
  const bool in_main = failure.place == "main.start" && (failure.manner == "throw" || failure.manner == "memory");
  std::string error = in_main ? "ended with exit status 1" : expectation(failure.manner).error;
  // No levin code is on the stack there: what the launcher sees is std::terminate's abort().
  if (failure.place == "main.start" && failure.manner == "throw_object") error = expectation("abort").error;
  problems.unless(report->find(error) != std::string::npos, "the first line lacks '" + error + "'");
  for (int rank = 0; rank < failure.ranks; ++rank) {
    if (rank == failure.rank) continue;
    const std::vector<std::string> about = lines_about(rank, err);
    problems.unless(about.size() == 1, std::to_string(about.size()) + " lines about rank " + std::to_string(rank));
    if (about.empty()) continue;
    problems.unless(report < std::find(lines.begin(), lines.end(), about.front()),
                    "rank " + std::to_string(rank) + " has its line before the failing rank's");
  }
  if (!failure.stalls()) return;
  problems.unless(count(err, "Ranks are:") >= 1, "no table of where the ranks are");
  problems.unless(failure.manner != "sigstop" || err.find(" stopped ") != std::string::npos || failure.place == "main.start",
                  "the table does not say that a rank is stopped");
}

}  // namespace

std::string FailureCase::str() const {
  std::string text = entry + ", " + place + ", " + manner + " on rank " + std::to_string(rank);
  for (const std::string& setting : settings) text += ", " + setting;
  return text;
}

Expectation expectation(const std::string& manner) {
  static const std::map<std::string, Expectation> expectations{{"throw", {1, "the sensor returned garbage"}},
                                                               {"throw_object", {134, "not a std::exception"}},
                                                               {"memory", {1, "std::bad_alloc"}},
                                                               {"abort", {134, "was killed by signal 6"}},
                                                               {"segfault", {139, "was killed by signal 11"}},
                                                               {"exit", {1, "ended with exit status 0"}},
                                                               {"sigkill", {137, "was killed by signal 9"}},
                                                               {"sigterm", {143, ""}},
                                                               {"sigstop", {1, "(timeout_seconds)"}},
                                                               {"loop", {1, "(timeout_seconds)"}}};
  return expectations.at(manner);
}

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

Moment moment_of_failure(const std::filesystem::path& folder) {
  std::ifstream stream(folder / "failed_at");
  Moment moment;
  std::int64_t nanoseconds = 0;
  stream >> nanoseconds >> std::ws;
  std::getline(stream, moment.place);
  moment.seconds = static_cast<double>(nanoseconds) / 1e9;
  return moment;
}

std::vector<int> processes_in(const std::filesystem::path& folder) {
  std::vector<int> processes;
  std::error_code ignored;
  const std::filesystem::path wanted = std::filesystem::canonical(folder);
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    if (std::filesystem::read_symlink(entry.path() / "cwd", ignored) == wanted) processes.push_back(std::stoi(name));
  }
  return processes;
}

std::vector<std::string> lines_about(int rank, const std::string& text) {
  const std::regex about("(levin:   )?rank " + std::to_string(rank) +
                         " (ended|failed (too|with the same error)|was killed|did not end).*");
  std::vector<std::string> found;
  for (const std::string& line : lines_of(text)) {
    if (std::regex_match(line, about)) found.push_back(line);
  }
  return found;
}

std::vector<std::string> damaged_files(const std::filesystem::path& folder, bool first_epoch_done) {
  Problems problems;
  const std::filesystem::path metrics = folder / "logs" / "version_0" / "metrics.csv";
  if (first_epoch_done || std::filesystem::exists(metrics)) {
    try {
      problems.unless(read_text(metrics).ends_with('\n'), "the last row of metrics.csv is not whole");
      // Earlier rows may lack the columns that came later, which readers of CSV fill with nothing.
      const CsvTable table = CsvTable::read(metrics, /*may_lack_cells=*/true);
      int steps = 0;
      int validations = 0;
      for (std::size_t row = 0; row < table.size(); ++row) {
        if (table.cell(row, "epoch") != "0") continue;
        steps += table.has("train_loss_step") && !table.cell(row, "train_loss_step").empty() ? 1 : 0;
        validations += table.has("val_loss") && !table.cell(row, "val_loss").empty() ? 1 : 0;
      }
      problems.unless(!first_epoch_done || (steps == 3 && validations == 1), "metrics.csv lacks rows of epoch 0");
    } catch (const std::exception& error) {
      problems.unless(false, std::string("metrics.csv is damaged: ") + error.what());
    }
  }
  const std::filesystem::path checkpoints = folder / "checkpoints";
  problems.unless(!first_epoch_done || std::filesystem::exists(checkpoints / "epoch=0-step=3.ckpt"),
                  "the checkpoint of epoch 0 is missing");
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints, none)) {
    if (entry.path().extension() != ".ckpt") continue;
    try {
      const Checkpoint checkpoint = Checkpoint::load(entry.path());
      problems.unless(checkpoint.tensors.contains("state_dict.layer.weight"), entry.path().string() + " lacks the weights");
    } catch (const std::exception& error) {
      problems.unless(false, error.what());
    }
  }
  return problems;
}

Command command_of(const FailureCase& failure, const std::filesystem::path& folder) {
  Command command{.arguments = {LEVIN_BINARY_DIR "/bin/rank_programs", "failure", "entry=" + failure.entry,
                                "ranks=" + std::to_string(failure.ranks), "folder=" + folder.string(), "place=" + failure.place,
                                "manner=" + failure.manner, "rank=" + std::to_string(failure.rank)},
                  .environment = {{"OMP_NUM_THREADS", "1"}},
                  .limit = std::chrono::seconds(90),
                  .copied = true};
  command.arguments.insert(command.arguments.end(), failure.settings.begin(), failure.settings.end());
  return command;
}

std::vector<std::string> problems_of(const FailureCase& failure, const std::filesystem::path& folder) {
  Command command = command_of(failure, folder);
  if (failure.stalls()) {
    command.arguments.push_back("stall_report=" + std::to_string(kStallReportSeconds));
    command.arguments.push_back("timeout=" + std::to_string(kTimeoutSeconds));
  }
  const Outcome outcome = run(command);
  const double end = monotonic_seconds();
  Problems problems;
  problems.unless(!outcome.timed_out, "the run did not end");
  problems.unless(processes_in(folder).empty(), "processes of the run are left");
  const Moment moment = moment_of_failure(folder);
  problems.unless(moment.seconds > 0, "the rank never came to the place where it was to fail");
  const double taken = end - moment.seconds;
  problems.unless(taken < (failure.stalls() ? kStallEndSeconds : kCrashSeconds),
                  "the run ended " + std::to_string(taken) + " s after the failure");
  problems.unless(outcome.status == expectation(failure.manner).status, "exit status " + std::to_string(outcome.status));
  const bool orderly = failure.manner == "sigterm" && !failure.place.starts_with("main.");
  if (orderly) {
    check_orderly_stop(failure, outcome.err, problems);
  } else {
    check_report(failure, moment, without_terminate(outcome.err), problems);
  }
  const bool first_epoch_done =
      moment.place.find("epoch 1") != std::string::npos || moment.place.find("epoch 2") != std::string::npos;
  for (const std::string& problem : damaged_files(folder, first_epoch_done)) problems.push_back(problem);
  if (!problems.empty()) problems.push_back(outcome.text());
  return problems;
}

}  // namespace levin::test
