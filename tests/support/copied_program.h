#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace levin::test {

/// For programs that tests start hundreds of times: loading LibTorch takes longer than most of their work.
///
/// A test asks for a copy of the program with a Command that is `copied` (program.h). The program is loaded once and waits in
/// become_copy(), which its main() has called; each start is a fork of that process, which continues with the arguments,
/// variables, folder and standard streams of that start.

/// The program's side, first in its main(). Started by a user it does nothing. Started for copies, it returns only in each
/// copy, with that copy's arguments.
void become_copy(int& argc, char**& argv);

/// How a program is started.
struct Start {
  std::vector<std::string> arguments;    ///< with the program's path first
  std::string folder;                    ///< where it runs
  std::vector<std::string> environment;  ///< NAME=value, all of it
  int out;                               ///< descriptors for its standard output and error; its standard input is empty
  int err;
};

/// One started copy, the leader of a new process group.
struct Copy {
  pid_t process;
  int news;  ///< where its end shows; the caller closes it
};

/// Throws std::runtime_error when the program cannot be started, or does not call become_copy(). Threading: any thread.
Copy start_copy(const Start& start);

/// Waits for a copy's end; its status, as from waitpid().
int status_of_copy(int news);

}  // namespace levin::test
