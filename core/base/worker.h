#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <limits>
#include <memory>
#include <thread>

namespace levin {

/// Does jobs on one thread, in the order in which they are added. The thread starts with the first job; while there are jobs,
/// exit() waits for them (ExitGuard).
///
/// When a job throws, the jobs that wait are dropped, and the next add(), check() or wait() throws its error, once.
///
/// Threading: add(), check() and drop_waiting() on any thread, the waits (also for room) on any but the worker's own, the rest
/// on the owner's.
class Worker {
 public:
  using Job = std::function<void()>;
  using Clock = std::chrono::steady_clock;

  /// `most_waiting`: so many jobs may wait; add() waits for room.
  explicit Worker(std::size_t most_waiting = std::numeric_limits<std::size_t>::max());
  /// Finishes all jobs. An error that was not rethrown is lost.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Throws: the error of an earlier job; std::system_error when the system gives no thread. The job is not added then.
  void add(Job job);
  /// Waits until all jobs are done; false: the deadline came first. Throws nothing.
  bool wait_until(Clock::time_point deadline);
  /// Waits until all jobs are done. Throws: the error of a job.
  void wait();
  /// Throws: the error of a job.
  void check();
  /// Drops the jobs that wait. The one under way continues.
  void drop_waiting();
  /// Drops the jobs that wait, and detaches a thread whose job does not return; exit() no longer waits for it. The job must own
  /// what it uses. The next add() starts another thread.
  void leave_behind();

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);

  const std::size_t most_waiting_;
  std::shared_ptr<Shared> shared_;  ///< with the thread, which may outlive this object
  std::thread thread_;
};

}  // namespace levin
