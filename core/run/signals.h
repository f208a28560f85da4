#pragma once

namespace levin {

/// While it lives, SIGINT, SIGTERM and SIGUSR1 are remembered instead of ending the process; a second SIGINT ends it at once.
/// Handlers of the user's own for SIGUSR1 stay. Nested scopes share what they remember.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  /// The last signal received, 0 for none.
  static int received();
};

}  // namespace levin
