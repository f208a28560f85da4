#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace levin {

/// A thread that makes calls which have no time limit of their own, one after another, so that whoever asks can stop waiting.
/// It begins with the first call. Threading: any thread may ask; each waits for its turn.
class CallThread {
 public:
  CallThread() = default;
  /// Waits for nothing: a call that does not end keeps its thread, which then ends with it.
  ~CallThread();
  CallThread(const CallThread&) = delete;
  CallThread& operator=(const CallThread&) = delete;

  /// Makes a call. Nothing when it has not ended by the deadline, or has not begun since another one is under way; a call that
  /// has begun goes on, so `call` must own all that it uses. Throws what the call throws.
  template <class Call>
  auto call_until(std::chrono::steady_clock::time_point deadline, Call call) -> std::optional<std::invoke_result_t<Call>>;

 private:
  /// What the thread and its owner share; the thread may outlive the owner.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void()> call;  ///< waiting for the thread, or under way
    std::int64_t ended = 0;      ///< calls so far
    bool stops = false;
  };

  /// True when the thread has made the call by the deadline.
  bool make(std::chrono::steady_clock::time_point deadline, std::function<void()> call);
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::once_flag begun_;
  std::thread thread_;
};

template <class Call>
auto CallThread::call_until(std::chrono::steady_clock::time_point deadline, Call call)
    -> std::optional<std::invoke_result_t<Call>> {
  struct Outcome {
    std::optional<std::invoke_result_t<Call>> result;
    std::exception_ptr error;
  };
  const auto outcome = std::make_shared<Outcome>();
  const bool made = make(deadline, [outcome, call = std::move(call)] {
    try {
      outcome->result = call();
    } catch (...) {
      outcome->error = std::current_exception();
    }
  });
  if (!made) return std::nullopt;
  if (outcome->error) std::rethrow_exception(outcome->error);
  return std::move(outcome->result);
}

}  // namespace levin
