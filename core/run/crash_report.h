#pragma once

namespace levin {

class HookTracker;

/// While it lives, a crash by signal (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) says on standard error in which hook and step
/// it happened, with a backtrace, before it ends the process as it would have. A signal that somebody else handles stays his.
/// Scopes nest; the innermost one's tracker counts.
class CrashReport {
 public:
  /// `rank`: of this process. `tracker` outlives the scope.
  CrashReport(int rank, const HookTracker& tracker);
  ~CrashReport();
  CrashReport(const CrashReport&) = delete;
  CrashReport& operator=(const CrashReport&) = delete;

 private:
  const HookTracker* outer_;
  int outer_rank_;
};

}  // namespace levin
