#include "levin/strategies/launch/signal_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT, SIGTSTP, SIGCHLD};

int write_end = -1;

void write_signal(int signal) {
  const int before = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = write(write_end, &byte, 1);
  errno = before;
}

}  // namespace

SignalPipe::SignalPipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw IoError(format("pipe failed: {}", std::strerror(errno)));
  read_end_ = ends[0];
  write_end = ends[1];
  for (const int signal : kSignals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN && signal != SIGCHLD) continue;
    taken_.push_back({signal, action});
    action = {};
    action.sa_handler = write_signal;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

SignalPipe::~SignalPipe() {
  for (const Taken& taken : taken_) sigaction(taken.signal, &taken.before, nullptr);
  close(std::exchange(write_end, -1));
  close(read_end_);
}

std::vector<int> SignalPipe::wait(std::chrono::milliseconds limit) {
  pollfd entry{read_end_, POLLIN, 0};
  poll(&entry, 1, static_cast<int>(limit.count()));
  std::vector<int> signals;
  std::array<unsigned char, 64> bytes{};
  ssize_t count = 0;
  while ((count = read(read_end_, bytes.data(), bytes.size())) > 0) {
    for (ssize_t i = 0; i < count; ++i) {
      if (bytes[static_cast<std::size_t>(i)] != SIGCHLD) signals.push_back(bytes[static_cast<std::size_t>(i)]);
    }
  }
  return signals;
}

}  // namespace levin
