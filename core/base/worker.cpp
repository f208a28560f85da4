#include "levin/core/base/worker.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <utility>

#include "levin/core/base/process.h"

namespace levin {

struct Worker::Shared {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> jobs;  ///< those that wait
  bool is_at_work = false;
  bool ends = false;
  std::exception_ptr error;
  std::shared_ptr<void> exit_guard;  ///< while there are jobs

  bool is_idle() const { return jobs.empty() && !is_at_work; }
};

Worker::Worker(std::size_t most_waiting) : most_waiting_(most_waiting), shared_(std::make_shared<Shared>()) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->ends = true;
  }
  shared_->changed.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Worker::add(Job job) {
  {
    std::unique_lock lock(shared_->mutex);
    shared_->changed.wait(lock, [this] { return shared_->jobs.size() < most_waiting_ || shared_->error; });
    if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
    if (!thread_.joinable()) thread_ = quiet_thread([shared = shared_] { work(shared); });
    if (!shared_->exit_guard) shared_->exit_guard = std::make_shared<ExitGuard>();
    shared_->jobs.push_back(std::move(job));
  }
  shared_->changed.notify_all();
}

bool Worker::wait_until(Clock::time_point deadline) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_until(lock, deadline, [this] { return shared_->is_idle(); });
}

void Worker::wait() {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait(lock, [this] { return shared_->is_idle(); });
  if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
}

void Worker::check() {
  const std::lock_guard lock(shared_->mutex);
  if (shared_->error) std::rethrow_exception(std::exchange(shared_->error, nullptr));
}

void Worker::drop_waiting() {
  std::deque<Job> dropped;
  {
    const std::lock_guard lock(shared_->mutex);
    dropped.swap(shared_->jobs);
    if (shared_->is_idle()) shared_->exit_guard.reset();
  }
  shared_->changed.notify_all();
}

void Worker::leave_behind() {
  drop_waiting();
  const std::shared_ptr<Shared> left = std::exchange(shared_, std::make_shared<Shared>());
  {
    const std::lock_guard lock(left->mutex);
    left->ends = true;
    left->exit_guard.reset();
  }
  left->changed.notify_all();
  if (thread_.joinable()) thread_.detach();
}

void Worker::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->changed.wait(lock, [&] { return shared->ends || !shared->jobs.empty(); });
    if (shared->jobs.empty()) return;
    Job job = std::move(shared->jobs.front());
    shared->jobs.pop_front();
    shared->is_at_work = true;
    lock.unlock();
    shared->changed.notify_all();  // there is room
    std::exception_ptr error;
    try {
      job();
    } catch (...) {
      error = std::current_exception();
    }
    job = nullptr;  // what it owns is destroyed without the lock, before the wait for it ends
    std::deque<Job> dropped;
    lock.lock();
    if (error) {
      shared->error = error;
      dropped.swap(shared->jobs);
      lock.unlock();
      dropped.clear();
      lock.lock();
    }
    shared->is_at_work = false;
    if (shared->jobs.empty()) shared->exit_guard.reset();
    shared->changed.notify_all();
  }
}

}  // namespace levin
