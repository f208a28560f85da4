#pragma once

#include <cstddef>
#include <memory>

namespace levin {

class HookTracker;
struct RunOfThread;

/// During its lifetime, a crash by signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) prints its hook and step on standard
/// error, or that it came in another thread, with a backtrace, before it ends the process as usual. Other handlers of a signal
/// stay. exit() prints them, too, and its status is then not 0, so that the run does not look complete. Scopes of one thread
/// nest; the innermost counts. Threading: made and destroyed by the thread that runs its hooks.
class CrashReport {
 public:
  /// `rank`: of this process. `alone`: it is the only one; of several, the waiting ones report. `tracker` outlives the scope.
  CrashReport(int rank, bool alone, const HookTracker& tracker);
  ~CrashReport();
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;

 private:
  RunOfThread* run_;  ///< null: more threads run hooks than there are slots, and this one is not reported
  const HookTracker* outer_ = nullptr;
  // After a stack overflow the handler needs its own stack.
  std::unique_ptr<std::byte[]> handler_stack_;
};

}  // namespace levin
