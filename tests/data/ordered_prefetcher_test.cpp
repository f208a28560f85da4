#include "levin/data/ordered_prefetcher.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

using levin::OrderedPrefetcher;
using Prefetcher = OrderedPrefetcher<std::unique_ptr<std::int64_t>>;

namespace {

std::unique_ptr<std::int64_t> item(std::int64_t value) { return std::make_unique<std::int64_t>(value); }

std::vector<std::int64_t> read_all(Prefetcher& prefetcher) {
  std::vector<std::int64_t> values;
  while (auto next = prefetcher.next()) values.push_back(**next);
  return values;
}

/// Holds threads back until it is opened.
class Gate {
 public:
  void open() {
    {
      const std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace

TEST_CASE("items come in order, whatever the number of threads, over many sequences") {
  for (const int threads : {1, 2, 4, 7}) {
    Prefetcher prefetcher(threads, threads * 2);
    for (std::int64_t sequence = 0; sequence < 50; ++sequence) {
      const std::int64_t count = sequence % 23;
      prefetcher.start(count, [sequence](std::int64_t index) { return item(1000 * sequence + index); });
      std::vector<std::int64_t> expected;
      for (std::int64_t index = 0; index < count; ++index) expected.push_back(1000 * sequence + index);
      REQUIRE(read_all(prefetcher) == expected);
      REQUIRE_FALSE(prefetcher.next());
    }
  }
}

TEST_CASE("before the first sequence there is nothing") {
  Prefetcher prefetcher(2, 4);
  REQUIRE_FALSE(prefetcher.next());
}

TEST_CASE("the same threads serve every sequence, and each is set up once") {
  std::mutex mutex;
  std::multiset<std::thread::id> set_up;
  std::set<std::thread::id> fetching;
  {
    Prefetcher prefetcher(3, 6, [&] {
      const std::lock_guard lock(mutex);
      set_up.insert(std::this_thread::get_id());
    });
    REQUIRE(set_up.size() == 3);
    for (int sequence = 0; sequence < 20; ++sequence) {
      prefetcher.start(30, [&](std::int64_t index) {
        const std::lock_guard lock(mutex);
        fetching.insert(std::this_thread::get_id());
        return item(index);
      });
      REQUIRE(read_all(prefetcher).size() == 30);
    }
  }
  REQUIRE(set_up.size() == 3);
  for (const std::thread::id thread : fetching) REQUIRE(set_up.count(thread) == 1);
  REQUIRE(fetching.count(std::this_thread::get_id()) == 0);
}

TEST_CASE("no more is made ahead than the capacity") {
  constexpr std::int64_t kCapacity = 3;
  std::atomic<std::int64_t> handed_out{0};
  std::atomic<bool> exceeded{false};
  Prefetcher prefetcher(4, kCapacity);
  prefetcher.start(200, [&](std::int64_t index) {
    // The item being taken has left its slot before the count goes up: one more may be under way.
    if (index > handed_out.load() + kCapacity) exceeded = true;
    return item(index);
  });
  while (prefetcher.next()) ++handed_out;
  REQUIRE(handed_out == 200);
  REQUIRE_FALSE(exceeded);
}

TEST_CASE("an exception comes with its own item, and the items after it still come") {
  for (const int threads : {1, 4}) {
    Prefetcher prefetcher(threads, 4);
    prefetcher.start(10, [](std::int64_t index) {
      if (index == 3 || index == 9) throw std::runtime_error("item " + std::to_string(index));
      return item(index);
    });
    for (std::int64_t index = 0; index < 3; ++index) REQUIRE(**prefetcher.next() == index);
    REQUIRE_THROWS_WITH(prefetcher.next(), "item 3");
    for (std::int64_t index = 4; index < 9; ++index) REQUIRE(**prefetcher.next() == index);
    REQUIRE_THROWS_WITH(prefetcher.next(), "item 9");
    REQUIRE_FALSE(prefetcher.next());
    prefetcher.start(2, [](std::int64_t index) { return item(index); });
    REQUIRE(read_all(prefetcher) == std::vector<std::int64_t>{0, 1});
  }
}

TEST_CASE("a new sequence in the middle of another drops what is left of it") {
  std::mt19937 random(7);
  Prefetcher prefetcher(3, 5);
  for (std::int64_t sequence = 0; sequence < 500; ++sequence) {
    prefetcher.start(40, [sequence](std::int64_t index) {
      if (index % 7 == 6) throw std::runtime_error("dropped with the sequence");
      return item(1000 * sequence + index);
    });
    const std::int64_t taken = std::uniform_int_distribution<std::int64_t>(0, 6)(random);
    for (std::int64_t index = 0; index < taken; ++index) REQUIRE(**prefetcher.next() == 1000 * sequence + index);
  }
}

TEST_CASE("a new sequence does not wait for what is under way") {
  Gate gate;
  Prefetcher prefetcher(2, 4);
  std::atomic<int> waiting{0};
  prefetcher.start(10, [&](std::int64_t index) {
    if (waiting++ == 0) gate.pass();  // one of the two threads hangs in the dropped sequence
    return item(-1 - index);
  });
  while (waiting == 0) std::this_thread::yield();
  prefetcher.start(10, [](std::int64_t index) { return item(index); });
  REQUIRE(read_all(prefetcher) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  gate.open();
}

TEST_CASE("destruction with busy threads ends, and frees everything that was made") {
  struct Counted {
    explicit Counted(std::atomic<int>& alive) : alive(&alive) { ++alive; }
    ~Counted() { --*alive; }
    std::atomic<int>* alive;
  };
  std::atomic<int> alive{0};
  for (int round = 0; round < 200; ++round) {
    OrderedPrefetcher<std::shared_ptr<Counted>> prefetcher(3, 6);
    prefetcher.start(1000, [&](std::int64_t) { return std::make_shared<Counted>(alive); });
    for (int taken = 0; taken < round % 5; ++taken) REQUIRE(prefetcher.next());
    if (round % 3 == 0) prefetcher.start(5, [&](std::int64_t) { return std::make_shared<Counted>(alive); });
  }
  REQUIRE(alive == 0);
}

TEST_CASE("destruction waits for a call under way, and starts no other") {
  Gate gate;
  std::atomic<int> calls{0};
  auto prefetcher = std::make_unique<Prefetcher>(1, 4);
  prefetcher->start(100, [&](std::int64_t index) {
    ++calls;
    gate.pass();
    return item(index);
  });
  while (calls == 0) std::this_thread::yield();
  std::atomic<bool> destroyed{false};
  std::thread destroying([&] {
    prefetcher.reset();
    destroyed = true;
  });
  REQUIRE_FALSE(destroyed);
  gate.open();
  destroying.join();
  // Between the gate and the stop the thread may have begun more, but no more than lie within the capacity.
  REQUIRE(calls <= 4);
}
