#pragma once

#include "levin/core/error.h"

namespace levin {

/// The run was asked to end by a signal, and ended at the same step on all ranks. Exit code 128 + signal.
class Interrupted : public Error {
 public:
  explicit Interrupted(int signal, const std::string& where);
  ~Interrupted() override;
  int signal() const { return signal_; }

 private:
  int signal_;
};

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
