#include "support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace levin::test {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

struct Pipe {
  int read_end = -1;
  int write_end = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
    read_end = ends[0];
    write_end = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_write_end();
    close(read_end);
  }
  void close_write_end() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
};

/// Runs in the child process, between fork and exec.
[[noreturn]] void become(const Command& command, const Pipe& out, const Pipe& err) {
  setpgid(0, 0);  // so that the whole family can be killed
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(out.write_end, STDOUT_FILENO);
  dup2(err.write_end, STDERR_FILENO);
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(126);
  for (const auto& [name, value] : command.environment) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

/// Reads what is there. False: the other end is closed.
bool drain(int descriptor, std::string& text) {
  std::array<char, 65536> buffer;
  const ssize_t count = read(descriptor, buffer.data(), buffer.size());
  if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && errno == EINTR);
}

/// Reads both pipes until all writers are gone. False: the deadline came first.
bool read_all(Pipe& out, Pipe& err, Clock::time_point deadline, Outcome& outcome) {
  std::array<pollfd, 2> polled = {{{out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}}};
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(polled.data(), polled.size(), static_cast<int>(left)) <= 0) continue;
    if (polled[0].revents != 0 && !drain(out.read_end, outcome.out)) polled[0].fd = -1;
    if (polled[1].revents != 0 && !drain(err.read_end, outcome.err)) polled[1].fd = -1;
  }
  return true;
}

}  // namespace

std::string Outcome::text() const {
  return "status " + std::to_string(status) + (timed_out ? " (killed at its time limit)" : "") + "\n--- standard output\n" +
         out + "--- standard error\n" + err;
}

Outcome run(const Command& command) {
  Pipe out;
  Pipe err;
  const auto deadline = Clock::now() + command.limit;
  const pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) become(command, out, err);
  setpgid(child, child);  // here too: whichever process comes first
  out.close_write_end();
  err.close_write_end();

  Outcome outcome;
  outcome.timed_out = !read_all(out, err, deadline, outcome);
  if (outcome.timed_out) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return outcome;
}

}  // namespace levin::test
