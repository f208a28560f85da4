#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "levin/core/base/process.h"

namespace levin {

/// Threads that make items 0, 1, 2, … of a sequence ahead of their use, and hand them out in order. The threads live as long as
/// the object, over any number of sequences, and sleep when there is nothing to do.
/// Threading: one thread calls start() and next(); `fetch` runs on several threads at the same time.
template <class T>
class OrderedPrefetcher {
 public:
  using Fetch = std::function<T(std::int64_t index)>;

  /// At most `capacity` items are made and not yet handed out. Returns when each thread has run `on_thread_start`, which must
  /// not throw. Throws std::system_error when threads cannot be started.
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
      started.wait();
    } catch (...) {
      stop();
      throw;
    }
  }
  OrderedPrefetcher(const OrderedPrefetcher&) = delete;
  OrderedPrefetcher& operator=(const OrderedPrefetcher&) = delete;
  /// Waits for the calls of fetch that are under way, and for no other.
  ~OrderedPrefetcher() { stop(); }

  /// Starts a sequence of `count` items. What is left of the one before is dropped; its calls under way end unseen.
  void start(std::int64_t count, Fetch fetch) {
    std::deque<Task> dropped;
    {
      const std::lock_guard lock(mutex_);
      tasks_.swap(dropped);
    }
    items_.clear();
    fetch_ = std::make_shared<const Fetch>(std::move(fetch));
    count_ = count;
    for (next_to_fetch_ = 0; next_to_fetch_ < std::min(count, capacity_);) fetch_another();
  }

  /// The next item, waiting for it if need be; nullopt at the end of the sequence. Throws what fetch threw for this item; the
  /// call after that continues with the item after it.
  std::optional<T> next() {
    if (items_.empty()) return std::nullopt;
    std::future<T> item = std::move(items_.front());
    items_.pop_front();
    item.wait();
    fetch_another();
    return item.get();
  }

 private:
  using Task = std::packaged_task<T()>;

  void fetch_another() {
    if (next_to_fetch_ == count_) return;
    Task task([fetch = fetch_, index = next_to_fetch_++] { return (*fetch)(index); });
    items_.push_back(task.get_future());
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    work_.notify_one();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void run() {
    std::unique_lock lock(mutex_);
    std::optional<ExitGuard> exit_guard;
    while (true) {
      if (tasks_.empty()) exit_guard.reset();
      work_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      if (!exit_guard) exit_guard.emplace();
      {
        Task task = std::move(tasks_.front());
        tasks_.pop_front();
        lock.unlock();
        task();
        // With it goes, without holding others up, an item of a dropped sequence.
      }
      lock.lock();
    }
  }

  // Of the thread that calls start() and next().
  const std::int64_t capacity_;
  std::shared_ptr<const Fetch> fetch_;
  std::int64_t count_ = 0;
  std::int64_t next_to_fetch_ = 0;
  std::deque<std::future<T>> items_;  ///< requested and not yet handed out

  std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Task> tasks_;  ///< that no thread has begun
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace levin
