#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/program.h"

namespace levin::test {

/// One run of failure_program that fails.
struct FailureCase {
  std::string entry = "fit";
  std::string place;  ///< "module.training_step"
  std::string manner;
  int rank = 0;
  int ranks = 4;
  std::vector<std::string> settings = {};

  bool stalls() const { return manner == "sigstop" || manner == "loop"; }
  /// For messages: "fit, module.training_step, throw on rank 2".
  std::string str() const;
};

/// The expected symptoms of a manner of failing.
struct Expectation {
  int status = 1;
  std::string error;  ///< part of the first line
};
Expectation expectation(const std::string& manner);

/// Seconds that ranks wait for one another before a stall is reported, and before it ends the run.
inline constexpr int kStallReportSeconds = 2;
inline constexpr int kTimeoutSeconds = 6;

/// Runs a case with levin's own launcher, in the folder, and checks everything that is promised of it: it ends in time, leaves
/// no process behind, names the failing rank first with its place, says one line for each other rank, gives the right exit
/// status, and leaves metrics and checkpoints whole. Gives what is wrong, in words; nothing when all is well. Threading: any
/// thread.
std::vector<std::string> problems_of(const FailureCase& failure, const std::filesystem::path& folder);

// The parts of it.

/// What starts it.
Command command_of(const FailureCase& failure, const std::filesystem::path& folder);

/// Processes that work in a folder, as failure_program does in that of its run.
std::vector<int> processes_in(const std::filesystem::path& folder);
/// The lines in which `rank` says, or is said, to have ended because of another's failure.
std::vector<std::string> lines_about(int rank, const std::string& text);
/// Files of the run that must be whole: metrics of earlier epochs, and every checkpoint. Gives what is wrong.
std::vector<std::string> damaged_files(const std::filesystem::path& folder, bool first_epoch_done);
/// What the failing rank wrote just before it failed.
struct Moment {
  double seconds = 0;  ///< on CLOCK_MONOTONIC; 0: not reached
  std::string place;   ///< "training_step (train, epoch 1, step 4)"; "" outside of a run
};
Moment moment_of_failure(const std::filesystem::path& folder);
double monotonic_seconds();

}  // namespace levin::test
