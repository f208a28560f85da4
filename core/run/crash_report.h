#pragma once

namespace levin {

class HookTracker;

/// While it lives, a crash by signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) says on standard error in which hook and step
/// it happened, with a backtrace, before it ends the process as it would have. A signal that somebody else handles stays his.
/// exit() says so too, and its status is then not 0: what follows the run would take it for done. Scopes nest; the innermost
/// one's tracker counts.
class CrashReport {
 public:
  /// `rank`: of this process. `alone`: it is the only one; others are told of by those who wait for them. `tracker` outlives
  /// the scope.
  CrashReport(int rank, bool alone, const HookTracker& tracker);
  ~CrashReport();
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;

 private:
  const HookTracker* outer_;
  int outer_rank_;
};

}  // namespace levin
