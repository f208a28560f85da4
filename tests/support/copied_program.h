#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace levin::test {

/// For programs that tests start by the hundred: loading LibTorch takes longer than most of what they then do.
///
/// A test asks for a copy of the program with CopiedProgram. The program is loaded once, and stands still where its main() has
/// called become_copy(); each start is a fork of that process, which goes on with the arguments, the variables, the folder and
/// the standard streams of that start.

/// The program's side, first in its main(). Started by a user it does nothing. Started for copies, it does not return but in
/// each copy, with that copy's arguments.
void become_copy(int& argc, char**& argv);

/// How a program is started.
struct Start {
  std::vector<std::string> arguments;    ///< with the program's path first
  std::string folder;                    ///< where it runs
  std::vector<std::string> environment;  ///< NAME=value, all of it
  int out = -1;                          ///< descriptors for its standard output and error; its standard input is empty
  int err = -1;
};

/// The test's side: one started copy, the leader of a process group of its own.
class CopiedProgram {
 public:
  /// Throws std::runtime_error when the program cannot be started, or does not call become_copy().
  explicit CopiedProgram(const Start& start);
  ~CopiedProgram();
  CopiedProgram(const CopiedProgram&) = delete;
  CopiedProgram& operator=(const CopiedProgram&) = delete;

  pid_t process() const { return process_; }
  /// Waits for its end: what waitpid() says of it.
  int wait();
  /// The same within a time; nothing when it has not ended by then.
  std::optional<int> wait(std::chrono::milliseconds limit);

 private:
  int news_ = -1;  ///< its process, and then its status, come here
  pid_t process_ = -1;
};

}  // namespace levin::test
