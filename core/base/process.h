#pragma once

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace levin {

/// What this host calls itself.
inline std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unknown host";
}

/// The cores that this process may run on.
inline int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The command line of this process, the program first; empty where the system does not report it.
std::vector<std::string> own_command_line();

/// A program, by the first word of such a line, as it is typed: its name, where that is what a search of PATH finds.
std::string program_as_typed(const std::string& word);

/// Ends the process at once, when what was written has been passed on: without taking out LibTorch's operators one by one,
/// which takes a tenth of a second although all of them go with the process.
[[noreturn]] inline void end_process(int status) {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
  _exit(status);
}

/// How long an OpenMP thread of LibTorch spins for the others before it sleeps: turns of a loop, some ten microseconds.
/// OpenMP's default is several milliseconds, which keep the core from the thread it waits for: next to one other busy program a
/// run of two threads took thirty times as long as alone. Longer spinning makes a run of small operations faster on an idle
/// machine, and slower on a busy one: with 300, 1,000 and 10,000 turns the digits took 4.3, 3.4 and 2.6 s alone, and 6.9, 8.5
/// and 15 s next to a busy program.
inline constexpr const char* kOpenMpSpins = "300";
inline constexpr const char* kOpenMpSpinsVariable = "GOMP_SPINCOUNT";

/// True when the user has chosen how OpenMP's threads wait.
inline bool has_openmp_waits() { return getenv("OMP_WAIT_POLICY") != nullptr || getenv(kOpenMpSpinsVariable) != nullptr; }

/// Makes the waits of OpenMP's threads short, unless the user has chosen. Counts only before LibTorch is loaded, as OpenMP
/// reads its environment then. Threading: before others are started.
inline void shorten_openmp_waits() {
  if (!has_openmp_waits()) setenv(kOpenMpSpinsVariable, kOpenMpSpins, /*overwrite=*/0);
}

/// During its lifetime the process is levin's own: its program, run_main() or a rank that levin has started. Otherwise levin is
/// a library in a program that owns signals, memory and standard error. Threading: any.
class OwnProcess {
 public:
  OwnProcess() { ++scopes_; }
  ~OwnProcess() { --scopes_; }
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;

  static bool is_one() { return scopes_ > 0; }

 private:
  inline static std::atomic<int> scopes_ = 0;
};

/// During its lifetime, Trainers of its thread may start ranks by running the program again, as in levin's own processes; but
/// their outcome is stored here, and the process continues.
class LaunchPermit {
 public:
  /// How the run of this process's ranks has ended.
  struct Outcome {
    int status = 0;
    std::string failure;  ///< the first one; empty: none was recorded
  };
  /// Thrown by the Trainer's constructor then, to where the permit was given. No other code may catch it.
  struct RanksHaveEnded {};

  /// `call`: the number of earlier permits of the process, from which ranks find the same one.
  explicit LaunchPermit(int call) : call_(call), outer_(std::exchange(innermost_, this)) {}
  ~LaunchPermit() { innermost_ = outer_; }
  LaunchPermit(const LaunchPermit&) = delete;
  LaunchPermit& operator=(const LaunchPermit&) = delete;

  /// The innermost of this thread; null: none.
  static LaunchPermit* current() { return innermost_; }

  int call() const { return call_; }
  const std::optional<Outcome>& outcome() const { return outcome_; }
  [[noreturn]] void end_with(Outcome outcome) {
    outcome_ = std::move(outcome);
    throw RanksHaveEnded();  // NOLINT(bugprone-std-exception-baseclass): no handler of errors may catch it
  }

 private:
  inline static thread_local LaunchPermit* innermost_ = nullptr;

  int call_;
  LaunchPermit* outer_;
  std::optional<Outcome> outcome_;
};

/// Guards work of other threads that uses static objects, such as LibTorch's: exit() destroys these while other threads run,
/// but first waits for this, for a minute at most. Threading: any; it may end in another thread.
class ExitGuard {
 public:
  /// Does not return once static objects are being destroyed.
  ExitGuard();
  ~ExitGuard();
  ExitGuard(const ExitGuard&) = delete;
  ExitGuard& operator=(const ExitGuard&) = delete;
};

/// The same for a thread with long work, such as training: it blocks once exit() waits, which waits for ten seconds at most,
/// and not for the thread that calls it. Scopes of one thread nest.
class ThreadExitGuard {
 public:
  ThreadExitGuard();
  ~ThreadExitGuard();
  ThreadExitGuard(const ThreadExitGuard&) = delete;
  ThreadExitGuard& operator=(const ThreadExitGuard&) = delete;

  /// Call it between two pieces of work: while exit() waits, it blocks until release(). Cheap.
  static void block_if_exiting() {
    if (process_ends_.load(std::memory_order_relaxed)) block();
  }
  /// Lets blocked threads continue when their owner shuts them down, such as a static object of the program that waits for its
  /// thread.
  static void release();
  /// exit() destroys before its wait only objects made after the last call of this, which the constructor makes, too.
  static void watch_exit();

 private:
  struct EndOfProcess;
  static void block();
  /// Called by exit(). `is_over`: no thread continues after it.
  static void end_work(bool is_over);
  static std::atomic<bool> process_ends_;
  static const EndOfProcess end_of_process_;
};

/// A thread that receives no signals: the program's handlers belong on its own threads. Throws as std::thread does.
template <class Function>
std::thread quiet_thread(Function&& function) {
  sigset_t all;
  sigfillset(&all);
  // Also when starting the thread fails.
  struct Restore {
    sigset_t before;
    ~Restore() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } restore;
  pthread_sigmask(SIG_SETMASK, &all, &restore.before);
  return std::thread(std::forward<Function>(function));
}

/// Seconds of a monotonic clock, with an arbitrary start.
inline double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace levin
