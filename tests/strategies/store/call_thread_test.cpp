#include "levin/strategies/store/call_thread.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <thread>

using levin::CallThread;

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point soon() { return Clock::now() + std::chrono::seconds(20); }
Clock::time_point at_once() { return Clock::now() + std::chrono::milliseconds(1); }

/// A call that runs until it is released.
struct Endless {
  std::shared_ptr<std::atomic<bool>> go_on = std::make_shared<std::atomic<bool>>(true);
  bool operator()() const {
    while (*go_on) std::this_thread::yield();
    return true;
  }
};

}  // namespace

TEST_CASE("calls are made one after another on another thread, and give what they return or throw") {
  CallThread thread;
  const auto first = thread.call_until(soon(), [] { return std::this_thread::get_id(); });
  REQUIRE(first);
  CHECK(*first != std::this_thread::get_id());
  CHECK_THROWS_WITH(thread.call_until(soon(), []() -> int { throw std::runtime_error("no answer"); }), "no answer");
  CHECK(thread.call_until(soon(), [] { return std::string("after an error"); }) == "after an error");
}

TEST_CASE("a call that does not end is left alone, and so are those that wait for it until it ends") {
  CallThread thread;
  const Endless endless;
  std::atomic<bool> second_was_made{false};
  CHECK_FALSE(thread.call_until(at_once(), endless));
  CHECK_FALSE(thread.call_until(at_once(), [&] { return second_was_made = true; }));
  *endless.go_on = false;
  CHECK(thread.call_until(soon(), [] { return 3; }) == 3);
  CHECK_FALSE(second_was_made);
}

TEST_CASE("who owns a thread may go while a call goes on") {
  const Endless endless;
  {
    CallThread thread;
    CHECK_FALSE(thread.call_until(at_once(), endless));
  }
  *endless.go_on = false;
}
