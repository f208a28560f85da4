#include "levin/strategies/store/call_thread.h"

#include "levin/core/base/process.h"

namespace levin {

CallThread::~CallThread() {
  if (!thread_.joinable()) return;
  bool is_idle = false;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stops = true;
    is_idle = !state_->call;
  }
  state_->changed.notify_all();
  is_idle ? thread_.join() : thread_.detach();
}

bool CallThread::make(std::chrono::steady_clock::time_point deadline, std::function<void()> call) {
  std::call_once(begun_, [this] { thread_ = quiet_thread([state = state_] { run(state); }); });
  std::unique_lock lock(state_->mutex);
  if (!state_->changed.wait_until(lock, deadline, [this] { return !state_->call; })) return false;
  const std::int64_t number = state_->ended + 1;
  state_->call = std::move(call);
  state_->changed.notify_all();
  return state_->changed.wait_until(lock, deadline, [&] { return state_->ended >= number; });
}

void CallThread::run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->call || state->stops; });
    if (!state->call) return;
    const std::function<void()>& call = state->call;  // nobody replaces it before it has ended
    lock.unlock();
    call();
    lock.lock();
    state->call = nullptr;
    ++state->ended;
    state->changed.notify_all();
  }
}

}  // namespace levin
