#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "levin/core/base/unfinished_work.h"

namespace levin {

/// Threads that make items 0, 1, 2, … of a sequence ahead of their use, and hand them out in order. The threads live as long as
/// the object, over any number of sequences, and sleep when there is nothing to do.
/// Threading: one thread calls start() and next(); `fetch` runs on several threads at the same time.
template <class T>
class OrderedPrefetcher {
 public:
  using Fetch = std::function<T(std::int64_t index)>;

  /// At most `capacity` items are made and not yet handed out. Returns when each thread has run `on_thread_start`, which must
  /// not throw. Throws std::system_error when threads cannot be had.
  OrderedPrefetcher(int threads, std::int64_t capacity, const std::function<void()>& on_thread_start = {})
      : capacity_(capacity) {
    std::latch started(threads);
    try {
      for (int i = 0; i < threads; ++i) {
        threads_.emplace_back([this, &started, &on_thread_start] {
          if (on_thread_start) on_thread_start();
          started.count_down();
          run();
        });
      }
    } catch (...) {
      started.count_down(threads - static_cast<int>(threads_.size()));
      started.wait();
      stop();
      throw;
    }
    started.wait();
  }
  OrderedPrefetcher(const OrderedPrefetcher&) = delete;
  OrderedPrefetcher& operator=(const OrderedPrefetcher&) = delete;
  /// Waits for the calls of fetch that are under way, and for no other.
  ~OrderedPrefetcher() { stop(); }

  /// Starts a sequence of `count` items. What is left of the one before is dropped; its calls under way end unseen.
  void start(std::int64_t count, Fetch fetch) {
    auto shared_fetch = std::make_shared<const Fetch>(std::move(fetch));
    std::vector<Slot> dropped(static_cast<std::size_t>(std::min(count, capacity_)));
    {
      const std::lock_guard lock(mutex_);
      ++sequence_;
      count_ = count;
      next_to_fetch_ = next_to_hand_out_ = 0;
      fetch_.swap(shared_fetch);
      slots_.swap(dropped);
    }
    work_.notify_all();
  }

  /// The next item, waiting for it if need be; nullopt at the end of the sequence. Throws what fetch threw for this item; the
  /// call after that goes on with the item after it.
  std::optional<T> next() {
    Slot slot;
    {
      std::unique_lock lock(mutex_);
      if (next_to_hand_out_ == count_) return std::nullopt;
      Slot& awaited = slots_[slot_of(next_to_hand_out_)];
      ready_.wait(lock, [&awaited] { return awaited.has_value(); });
      slot.swap(awaited);
      ++next_to_hand_out_;
    }
    work_.notify_one();
    if (auto* error = std::get_if<std::exception_ptr>(&*slot)) std::rethrow_exception(*error);
    return std::get<T>(std::move(*slot));
  }

 private:
  using Slot = std::optional<std::variant<T, std::exception_ptr>>;

  std::size_t slot_of(std::int64_t index) const { return static_cast<std::size_t>(index) % slots_.size(); }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  bool has_work() const {
    return next_to_fetch_ < count_ && next_to_fetch_ < next_to_hand_out_ + static_cast<std::int64_t>(slots_.size());
  }

  static Slot make(const Fetch& fetch, std::int64_t index) {
    try {
      return Slot(std::in_place, std::in_place_index<0>, fetch(index));
    } catch (...) {
      return Slot(std::in_place, std::in_place_index<1>, std::current_exception());
    }
  }

  void run() {
    std::unique_lock lock(mutex_);
    std::optional<UnfinishedWork> unfinished;
    while (true) {
      if (!has_work()) unfinished.reset();
      work_.wait(lock, [this] { return stopping_ || has_work(); });
      if (stopping_) return;
      if (!unfinished) unfinished.emplace();
      const std::int64_t index = next_to_fetch_++;
      const std::uint64_t sequence = sequence_;
      std::shared_ptr<const Fetch> fetch = fetch_;
      lock.unlock();
      Slot made = make(*fetch, index);
      fetch.reset();
      lock.lock();
      if (sequence == sequence_) {
        slots_[slot_of(index)].swap(made);
        ready_.notify_one();
      } else {
        // An item of a dropped sequence is destroyed without holding the others up.
        lock.unlock();
        made.reset();
        lock.lock();
      }
    }
  }

  const std::int64_t capacity_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable ready_;
  std::vector<Slot> slots_;  ///< item i lies in slot i modulo their number
  std::shared_ptr<const Fetch> fetch_;
  std::uint64_t sequence_ = 0;
  std::int64_t count_ = 0;
  std::int64_t next_to_fetch_ = 0;
  std::int64_t next_to_hand_out_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace levin
