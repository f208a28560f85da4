#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace levin::test {

/// A command to run as a user would type it, and what it may take.
struct Command {
  std::vector<std::string> arguments;  ///< the program, looked up in PATH, and its arguments
  std::filesystem::path folder = {};   ///< where it runs; default: here
  /// Variables added to this process's environment, or taken out of it when the value is empty.
  std::vector<std::pair<std::string, std::string>> environment = {};
  std::chrono::seconds limit{100};  ///< after this, times patience(), the command and every process that it started are killed
  bool copied = false;              ///< the program, given by its path, makes copies of itself (copied_program.h)
};

/// The command as another program starts it, whose name and arguments come first.
Command under(const std::vector<std::string>& launcher, Command command);

/// What a command did.
struct Outcome {
  int status = -1;  ///< exit status; 128 + n when signal n ended it
  bool timed_out = false;
  std::string out;  ///< standard output
  std::string err;  ///< standard error

  bool ok() const { return status == 0 && !timed_out; }
  /// Everything, for the message of a failed test.
  std::string text() const;
};

/// Runs a command to its end, or to its limit. Its standard input is empty. Throws std::system_error when it cannot be started.
Outcome run(const Command& command);

}  // namespace levin::test
