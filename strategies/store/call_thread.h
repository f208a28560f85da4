#pragma once

#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>

#include "levin/core/base/process.h"

namespace levin {

/// Makes calls without a time limit, one after another, each on a thread, so that the caller can stop waiting. Threading: any
/// thread may call; each waits for its turn.
class CallThread {
 public:
  /// Makes a call. Unset when it has not ended by the deadline, or has not started because another one is running. A running
  /// call continues, also when this object is gone, so `call` must own all that it uses. Throws what the call throws.
  template <class Call>
  auto call_until(std::chrono::steady_clock::time_point deadline, Call call) -> std::optional<std::invoke_result_t<Call>> {
    const auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Call>()>>(std::move(call));
    std::future<std::invoke_result_t<Call>> result = task->get_future();
    {
      std::unique_lock lock(state_->mutex);
      if (!state_->changed.wait_until(lock, deadline, [this] { return !state_->is_busy; })) return std::nullopt;
      quiet_thread([task, state = state_] {
        (*task)();
        const std::lock_guard lock(state->mutex);
        state->is_busy = false;
        state->changed.notify_all();
      }).detach();
      state_->is_busy = true;
    }
    if (result.wait_until(deadline) != std::future_status::ready) return std::nullopt;
    return result.get();
  }

 private:
  /// A call may outlive it.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_busy = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace levin
