#include "support/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "support/patience.h"

namespace levin::test {
namespace {

using Clock = std::chrono::steady_clock;

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
      return true;  // EIO: the other side is closed
    }
  }
}

}  // namespace

std::string TerminalOutcome::text() const {
  std::string text = "status " + std::to_string(status) + (timed_out ? " (killed at its time limit)" : "") + "\n";
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

TerminalOutcome run_in_terminal(Command command, int columns) {
  command.environment.emplace_back("TERM", "xterm");
  winsize size{};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(columns);
  int terminal = -1;
  int other_side = -1;
  if (openpty(&terminal, &other_side, nullptr, nullptr, &size) != 0) {
    throw std::system_error(errno, std::generic_category(), "openpty");
  }
  for (const int side : {terminal, other_side}) fcntl(side, F_SETFD, FD_CLOEXEC);
  const auto deadline = Clock::now() + patience(command.limit);
  Started started(command, other_side, other_side);
  close(other_side);

  TerminalOutcome outcome;
  outcome.timed_out = !read_all(terminal, deadline, outcome.bytes);
  if (outcome.timed_out) kill(-started.process(), SIGKILL);
  outcome.status = started.wait();
  close(terminal);
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
