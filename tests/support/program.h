#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace levin::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// A command to run as a user would type it, with its limits.
struct Command {
  std::vector<std::string> arguments;  ///< the program, looked up in PATH, and its arguments
  std::filesystem::path folder = {};   ///< its working folder; default: that of this process
  /// Variables added to this process's environment, or removed if the value is empty. The last of a name counts.
  Environment environment = {};
  std::chrono::seconds limit{100};  ///< after this, times patience(), the command and every process that it started are killed
  bool copied = false;              ///< the program, given by its path, makes copies of itself (copied_program.h)
};

/// The command as started by another program, whose name and arguments come first.
Command under(const std::vector<std::string>& launcher, Command command);

/// A started command: the leader of a new process group, with empty standard input.
class Started {
 public:
  /// `out` and `err`: descriptors for its standard output and error; -1: they are not read. Throws std::system_error when it
  /// cannot be started.
  explicit Started(const Command& command, int out = -1, int err = -1);
  /// Kills it, with its whole group, if it has not ended.
  ~Started();
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;

  pid_t process() const { return process_; }
  /// Waits for its end: its exit status, 128 + n when signal n ended it.
  int wait();
  /// The same within a time; unset if it has not ended by then.
  std::optional<int> wait(std::chrono::milliseconds limit);

 private:
  pid_t process_ = -1;
  int news_ = -1;  ///< where its end shows
  bool copied_;
  std::optional<int> status_;
};

/// The outcome of a command.
struct Outcome {
  int status = -1;  ///< exit status; 128 + n when signal n ended it
  bool timed_out = false;
  std::string out;  ///< standard output
  std::string err;  ///< standard error

  bool ok() const { return status == 0 && !timed_out; }
  /// Everything, for the message of a failed test.
  std::string text() const;
};

/// Runs a command to its end, or to its limit.
Outcome run(const Command& command);

/// Runs commands in parallel, to their ends.
std::vector<Outcome> run_together(const std::vector<Command>& commands);

/// All output of commands, for the message of a failed test.
std::string text_of(const std::vector<Outcome>& outcomes);

}  // namespace levin::test
