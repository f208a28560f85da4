#pragma once

#include <cstddef>
#include <memory>

namespace levin {

class HookTracker;
struct RunOfThread;

/// While it lives, a crash by signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) tells its hook and step on standard error, or
/// that it came in another thread, with a backtrace, before it ends the process as it would have. A signal that somebody else
/// handles stays his. exit() says so too, and its status is then not 0: what follows the run would take it for done. Scopes of
/// one thread nest; the innermost counts. Threading: made and destroyed by the thread that runs its hooks.
class CrashReport {
 public:
  /// `rank`: of this process. `alone`: it is the only one; others are told of by those who wait. `tracker` outlives the scope.
  CrashReport(int rank, bool alone, const HookTracker& tracker);
  ~CrashReport();
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;

 private:
  RunOfThread* run_;  ///< null: more threads run hooks than places are kept for, and this one's is not told
  const HookTracker* outer_ = nullptr;
  // A stack that has run over leaves no room for the handler.
  std::unique_ptr<std::byte[]> handler_stack_;
};

}  // namespace levin
