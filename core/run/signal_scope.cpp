#include "levin/core/run/signal_scope.h"

#include <atomic>
#include <csignal>
#include <ctime>

#include "levin/core/base/patience.h"
#include "levin/core/base/signal_handlers.h"
#include "levin/core/console/terminal_guard.h"

namespace levin {

namespace {

std::atomic<int> last_signal{0};

void remember(int signal) {
  static std::atomic<int> times{0};
  static std::atomic<double> first_seconds{0};
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const double seconds = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  if (std::atomic_exchange(&last_signal, signal) != signal) {
    times = 0;
    first_seconds = seconds;
  }
  const int time = ++times;
  HeededSignals::note(asks_again(signal, time, seconds - first_seconds), signal);
  if (ends_at_once(signal, time, seconds - first_seconds)) {
    restore_terminal();
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
}

SignalHandlers& handlers() {
  static auto& handlers = *new SignalHandlers({SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}, remember, SA_RESTART);
  return handlers;
}

}  // namespace

SignalScope::SignalScope(const std::function<bool(int)>& also) {
  const auto begin = [] {
    last_signal = 0;
    HeededSignals::settle();
  };
  handlers().take(begin, [&](int signal) { return signal != SIGUSR2 || (also && also(signal)); });
}
SignalScope::~SignalScope() {
  handlers().give_back([] { last_signal = 0; });
}

int SignalScope::received() { return last_signal; }

}  // namespace levin
