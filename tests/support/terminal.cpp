#include "support/terminal.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "support/patience.h"

namespace levin::test {
namespace {

using Clock = std::chrono::steady_clock;

/// Runs in the child process, whose standard input, output and error are the terminal.
[[noreturn]] void become(const Command& command) {
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(126);
  setenv("TERM", "xterm", 1);
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : command.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  _exit(127);
}

/// Reads until no process has the terminal open. False: the deadline came first.
bool read_all(int terminal, Clock::time_point deadline, std::string& bytes) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd polled{terminal, POLLIN, 0};
    if (poll(&polled, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 65536> buffer;
    const ssize_t count = read(terminal, buffer.data(), buffer.size());
    if (count > 0) {
      bytes.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return true;  // EIO: nobody is left on the other side
    }
  }
}

}  // namespace

std::string TerminalOutcome::text() const {
  std::string text = "status " + std::to_string(status) + (timed_out ? " (killed at its time limit)" : "") + "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TerminalOutcome run_in_terminal(const Command& command, int columns) {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  const auto deadline = Clock::now() + patience(command.limit);
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::system_error(errno, std::generic_category(), "forkpty");
  if (child == 0) become(command);

  TerminalOutcome outcome;
  outcome.timed_out = !read_all(terminal, deadline, outcome.bytes);
  if (outcome.timed_out) kill(-child, SIGKILL);  // the child leads a session and a group of its own
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  close(terminal);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.lines = screen_after(outcome.bytes);
  return outcome;
}

std::vector<std::string> screen_after(const std::string& bytes) {
  std::vector<std::string> lines(1);
  std::size_t column = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char byte = bytes[i];
    if (byte == '\n') {
      lines.emplace_back();
      column = 0;
    } else if (byte == '\r') {
      column = 0;
    } else if (byte == '\033') {
      const std::size_t end = bytes.find_first_of("Km", i);
      if (end == std::string::npos) break;
      if (bytes[end] == 'K') lines.back().resize(std::min(lines.back().size(), column));
      i = end;
    } else {
      std::string& line = lines.back();
      line.resize(std::max(line.size(), column + 1), ' ');
      line[column++] = byte;
    }
  }
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace levin::test
