#include "levin/core/engine/parts/signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace levin {

namespace {

std::atomic<int> received_signal{0};

void remember(int signal) {
  const int before = std::atomic_exchange(&received_signal, signal);
  if (signal == SIGINT && before == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
}

SignalHandlers& handlers() {
  static auto& handlers = *new SignalHandlers({SIGINT, SIGTERM, SIGUSR1}, remember, SA_RESTART);
  return handlers;
}

}  // namespace

SignalScope::SignalScope() {
  handlers().take([] { received_signal = 0; });
}
SignalScope::~SignalScope() { handlers().give_back(); }

int SignalScope::received() { return received_signal; }

}  // namespace levin
