#include "levin/core/base/worker.h"

#include <catch2/catch.hpp>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

using levin::Worker;

namespace {

/// A job that begins, and does not return before it is let go.
class HeldJob {
 public:
  Worker::Job job() {
    return [state = state_] {
      state->begun.set_value();
      state->gate.get_future().wait();
    };
  }
  void wait_for_begin() { state_->begun.get_future().wait(); }
  void let_go() { state_->gate.set_value(); }

 private:
  struct State {
    std::promise<void> begun;
    std::promise<void> gate;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

Worker::Clock::time_point in_a_minute() { return Worker::Clock::now() + std::chrono::minutes(1); }

}  // namespace

TEST_CASE("a worker does jobs in order, on one other thread") {
  std::vector<int> done;
  std::vector<std::thread::id> threads;
  Worker worker;
  CHECK(worker.wait_until(Worker::Clock::now()));
  for (int job = 0; job < 100; ++job) {
    worker.add([&, job] {
      done.push_back(job);
      threads.push_back(std::this_thread::get_id());
    });
  }
  worker.wait();
  std::vector<int> all;
  for (int job = 0; job < 100; ++job) all.push_back(job);
  CHECK(done == all);
  CHECK(threads == std::vector<std::thread::id>(100, threads.front()));
  CHECK(threads.front() != std::this_thread::get_id());
}

TEST_CASE("jobs of several threads are all done") {
  int sum = 0;
  {
    Worker worker(/*most_waiting=*/3);
    std::vector<std::thread> adding;
    for (int thread = 0; thread < 4; ++thread) {
      adding.emplace_back([&] {
        for (int job = 0; job < 250; ++job) worker.add([&] { ++sum; });
      });
    }
    for (std::thread& thread : adding) thread.join();
  }
  CHECK(sum == 1000);
}

TEST_CASE("a worker that is destroyed finishes its jobs first") {
  std::vector<int> done;
  HeldJob held;
  std::thread letting_go;
  {
    Worker worker;
    worker.add(held.job());
    worker.add([&] { done.push_back(1); });
    worker.add([&] { done.push_back(2); });
    held.wait_for_begin();
    letting_go = std::thread([&] { held.let_go(); });
  }
  CHECK(done == std::vector<int>{1, 2});
  letting_go.join();
}

TEST_CASE("an error is thrown once, and drops the jobs that waited") {
  int done = 0;
  HeldJob held;
  Worker worker;
  worker.add(held.job());
  worker.add([] { throw std::runtime_error("first"); });
  worker.add([&] { ++done; });
  worker.add([] { throw std::runtime_error("second"); });
  held.let_go();
  CHECK(worker.wait_until(in_a_minute()));
  SECTION("by add(), which adds nothing then") {
    CHECK_THROWS_WITH(worker.add([&] { ++done; }), "first");
    CHECK_NOTHROW(worker.wait());
  }
  SECTION("by check()") {
    CHECK_THROWS_WITH(worker.check(), "first");
    CHECK_NOTHROW(worker.check());
  }
  SECTION("by wait()") {
    CHECK_THROWS_WITH(worker.wait(), "first");
    CHECK_NOTHROW(worker.wait());
  }
  CHECK(done == 0);
  worker.add([&] { ++done; });
  worker.wait();
  CHECK(done == 1);
}

TEST_CASE("an error lets a thread continue that waits for room") {
  Worker worker(/*most_waiting=*/1);
  HeldJob held;
  worker.add([job = held.job()] {
    job();
    throw std::runtime_error("broken");
  });
  held.wait_for_begin();
  worker.add([] {});
  auto added = std::async(std::launch::async, [&] { worker.add([] {}); });
  held.let_go();
  CHECK_THROWS_WITH(added.get(), "broken");
}

TEST_CASE("as many jobs wait as may, and the next one waits for room") {
  Worker worker(/*most_waiting=*/2);
  HeldJob held;
  std::vector<int> done;
  worker.add(held.job());
  held.wait_for_begin();
  for (int job = 0; job < 2; ++job) worker.add([&, job] { done.push_back(job); });
  std::promise<void> tries;
  auto added = std::async(std::launch::async, [&] {
    tries.set_value();
    worker.add([&] { done.push_back(2); });
  });
  tries.get_future().wait();
  CHECK(added.wait_for(std::chrono::milliseconds(10)) == std::future_status::timeout);
  held.let_go();
  added.get();
  worker.wait();
  CHECK(done == std::vector<int>{0, 1, 2});
}

TEST_CASE("what a job owns is destroyed before the wait for it ends, and may use the worker") {
  Worker worker;
  int destroyed = 0;
  for (int job = 1; job <= 50; ++job) {
    std::shared_ptr<int> owned(new int(job), [&](const int* number) {
      delete number;
      worker.check();
      ++destroyed;
    });
    worker.add([owned = std::move(owned)] { (void)owned; });
    CHECK(worker.wait_until(in_a_minute()));
    CHECK(destroyed == job);
  }
}
