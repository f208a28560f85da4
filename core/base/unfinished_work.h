#pragma once

#include <atomic>

namespace levin {

/// Work of other threads with what goes with the process's static objects, LibTorch's among them: exit() destroys those while
/// other threads run, but waits for this first, for a minute at most. Threading: any; it may end in another thread.
class UnfinishedWork {
 public:
  /// Does not come back once static objects go.
  UnfinishedWork();
  ~UnfinishedWork();
  UnfinishedWork(const UnfinishedWork&) = delete;
  UnfinishedWork& operator=(const UnfinishedWork&) = delete;
};

/// The same for a thread whose work has no near end, such as training: it stays where it is once exit() waits, which it does
/// for ten seconds at most, and not for the thread that calls it. Scopes of one thread nest.
class WorkingThread {
 public:
  WorkingThread();
  ~WorkingThread();
  WorkingThread(const WorkingThread&) = delete;
  WorkingThread& operator=(const WorkingThread&) = delete;

  /// Between two pieces of work: where exit() waits, this does not come back before go_on(). Cheap.
  static void stay_if_process_ends() {
    if (process_ends_.load(std::memory_order_relaxed)) stay();
  }
  /// Somebody ends such work himself, and may wait for its thread: a static object of the program that is destroyed.
  static void go_on();
  /// What exit() destroys before it waits is what was made after the last call of this, which the scope's begin has, too.
  static void watch_exit();

 private:
  struct EndOfProcess;
  static void stay();
  /// Called by exit(). `is_over`: nothing goes on from here.
  static void end_work(bool is_over);
  static std::atomic<bool> process_ends_;
  static const EndOfProcess end_of_process_;
};

}  // namespace levin
