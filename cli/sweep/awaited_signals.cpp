#include "levin/cli/sweep/awaited_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin::cli {
namespace {

/// Where the handler writes to, as a handler sees nothing else.
std::atomic<int> arrivals_end = -1;
/// Those that have come, a bit each.
std::atomic<std::uint64_t> arrived = 0;

void note_signal(int signal) {
  const int error = errno;
  const auto byte = static_cast<char>(signal);
  arrived.fetch_or(std::uint64_t{1} << static_cast<unsigned>(signal));
  [[maybe_unused]] const ssize_t written = write(arrivals_end, &byte, 1);
  errno = error;
}

}  // namespace

AwaitedSignals::AwaitedSignals(const std::vector<int>& signals) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw IoError(format("cannot make a pipe: {}", std::strerror(errno)));
  arrivals_ = Descriptor(ends[0]);
  // A full pipe must not stop the handler; its reader handles all signals that have arrived.
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  arrivals_end = ends[1];
  arrived = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals) sigaction(signal, &action, &before_.emplace_back(signal, action).second);
}

AwaitedSignals::~AwaitedSignals() {
  for (const auto& [signal, action] : before_) sigaction(signal, &action, nullptr);
  close(std::atomic_exchange(&arrivals_end, -1));
}

int AwaitedSignals::wait() const {
  char signal = 0;
  while (read(arrivals_.number(), &signal, 1) != 1) {
  }
  return signal;
}

int AwaitedSignals::pending_except(int signal) const {
  const auto is_another = [&](const auto& awaited) {
    return awaited.first != signal && (arrived >> static_cast<unsigned>(awaited.first) & 1U) != 0;
  };
  const auto found = std::ranges::find_if(before_, is_another);
  return found == before_.end() ? 0 : found->first;
}

bool AwaitedSignals::arrives_within(std::chrono::seconds time) const {
  return is_ready_by(std::chrono::steady_clock::now() + time, arrivals_.number(), POLLIN);
}

}  // namespace levin::cli
