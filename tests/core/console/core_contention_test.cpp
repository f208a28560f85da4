#include "levin/core/console/core_contention.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <future>
#include <thread>

#include "support/no_threads.h"

using levin::ContentionWatch;
using levin::CoreUse;
using levin::read_core_use;
using levin::waiting_share;

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Two threads that compute on one core, as long as this lives.
class TwoOnOneCore {
 public:
  TwoOnOneCore() {
    for (std::thread& thread : threads_) {
      thread = std::thread([this] {
        cpu_set_t all;
        sched_getaffinity(0, sizeof(all), &all);
        cpu_set_t one;
        CPU_ZERO(&one);
        int core = 0;
        while (!CPU_ISSET(core, &all)) ++core;
        CPU_SET(core, &one);
        sched_setaffinity(0, sizeof(one), &one);
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~TwoOnOneCore() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  TwoOnOneCore(const TwoOnOneCore&) = delete;
  TwoOnOneCore& operator=(const TwoOnOneCore&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread threads_[2];
};

}  // namespace

TEST_CASE("the share of waiting is that of the threads that were there at both looks") {
  const CoreUse before{{{1, {5 * kSecond, kSecond}}, {2, {0, 0}}, {3, {9 * kSecond, 9 * kSecond}}}};
  const CoreUse after{{{1, {7 * kSecond, kSecond}}, {2, {kSecond, kSecond}}, {4, {kSecond, 9 * kSecond}}}};
  CHECK(waiting_share(before, after).value() == Approx(0.25));
}

TEST_CASE("threads that hardly ran, and a kernel that does not count, tell nothing") {
  CHECK(waiting_share({}, {}) == std::nullopt);
  CHECK(waiting_share({{{1, {0, 0}}}}, {{{1, {kSecond / 10, kSecond / 10}}}}) == std::nullopt);
  CHECK(waiting_share({{{1, {0, 0}}}}, {{{1, {0, 0}}}}) == std::nullopt);
}

TEST_CASE("two threads on one core wait for half of the time or more") {
  const CoreUse before = read_core_use();
  REQUIRE_FALSE(before.threads.empty());
  const TwoOnOneCore busy;
  const CoreUse begin = read_core_use();
  std::optional<double> share;
  while (!share) {
    std::this_thread::yield();
    share = waiting_share(begin, read_core_use());
  }
  // This thread itself runs beside them.
  CHECK(*share > 0.2);
}

TEST_CASE("a watch over several threads warns once, and one over a single thread never starts") {
  std::promise<std::string> warned;
  std::atomic<int> times{0};
  {
    const TwoOnOneCore busy;
    const ContentionWatch single(1, [&](const std::string&) { ++times; });
    const ContentionWatch watch(2, [&](const std::string& text) {
      if (++times == 1) warned.set_value(text);
    });
    auto text = warned.get_future();
    REQUIRE(text.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    CHECK_THAT(text.get(), Catch::StartsWith("cores are busy: ") && Catch::Contains("trainer.threads: 1"));
  }
  CHECK(times == 1);
}

TEST_CASE("a watch that gets no thread watches nothing, and a run does without") {
  const levin::test::NoThreads no_threads;
  CHECK_NOTHROW(ContentionWatch(2));
}
