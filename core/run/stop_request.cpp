#include "levin/core/run/stop_request.h"

#include <algorithm>
#include <csignal>
#include <ctime>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/patience.h"
#include "levin/core/base/process.h"
#include "levin/core/base/signal_handlers.h"
#include "levin/core/console/terminal_guard.h"

namespace levin {

void StopRequest::begin(bool heeds_signals) {
  const std::lock_guard lock(mutex_);
  if (asked_before_the_end_) {
    asked_ = asked_before_the_end_ = false;
    reason_.clear();
  }
  is_running_ = true;
  heeds_signals_ = heeds_signals;
  agreed_ = skips_epoch_ = false;
  signal_ = first_rank_ = 0;
}

void StopRequest::end() {
  const std::lock_guard lock(mutex_);
  is_running_ = false;
  asked_before_the_end_ = asked_;
}

void StopRequest::ask(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  asked_ = true;
  if (!is_running_) asked_before_the_end_ = false;
  if (!reason.empty()) reason_ = reason;
  ThreadExitGuard::release();
}

void StopRequest::take_back() {
  const std::lock_guard lock(mutex_);
  asked_ = asked_before_the_end_ = false;
  reason_.clear();
}

Votes StopRequest::votes(bool has_next_batch) const {
  return {.stop = asked(), .end_epoch = skips_epoch_, .has_next = has_next_batch, .signal = received_signal()};
}

int StopRequest::received_signal() const { return heeds_signals_ ? SignalScope::received() : 0; }

Votes StopRequest::adopt(const std::vector<Votes>& by_rank) {
  const Votes merged = merge(by_rank);
  agreed_ = merged.stop;
  if (merged.stop) {
    const auto first = std::ranges::find_if(by_rank, &Votes::stop);
    first_rank_ = static_cast<int>(first - by_rank.begin());
  }
  if (merged.signal != 0) signal_ = merged.signal;
  return merged;
}

void StopRequest::throw_if_signalled(const std::string& where) const {
  if (signal_ == 0) return;
  HeededSignals::settle();
  throw Interrupted(signal_, where);
}

std::string StopRequest::explain(int world_size) const {
  if (const std::string own = reason(); !own.empty()) return own;
  return world_size == 1 ? "stop was requested" : format("rank {} requested it", first_rank_);
}

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
  HeededSignals::note(asks_again(signal, time, seconds - first_seconds));
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
