#pragma once

namespace levin {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 are remembered instead of ending the process; a second SIGINT ends it at once.
/// A signal that the user ignores or handles on his own stays his. Scopes overlap, also those of several threads, and share
/// what they remember.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  /// The last signal received since the first of the scopes that live now; 0 for none.
  static int received();
};

}  // namespace levin
