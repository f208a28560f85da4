#include "levin/core/run/signals.h"

#include <array>
#include <atomic>
#include <csignal>

namespace levin {

namespace {

struct Watched {
  int signal;
  struct sigaction before;
  bool installed;
};

std::atomic<int> received_signal{0};
int open_scopes = 0;
std::array<Watched, 3> watched{{{SIGINT, {}, false}, {SIGTERM, {}, false}, {SIGUSR1, {}, false}}};

void remember(int signal) {
  const int before = std::atomic_exchange(&received_signal, signal);
  if (signal == SIGINT && before == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    raise(SIGINT);
  }
}

}  // namespace

SignalScope::SignalScope() {
  if (open_scopes++ > 0) return;
  received_signal = 0;
  for (Watched& watch : watched) {
    struct sigaction current {};
    sigaction(watch.signal, nullptr, &current);
    // A signal that the user ignores (nohup) or handles on his own stays his.
    if (current.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = remember;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    watch.installed = sigaction(watch.signal, &action, &watch.before) == 0;
  }
}

SignalScope::~SignalScope() {
  if (--open_scopes > 0) return;
  for (Watched& watch : watched) {
    if (watch.installed) sigaction(watch.signal, &watch.before, nullptr);
    watch.installed = false;
  }
}

int SignalScope::received() { return received_signal; }

}  // namespace levin
