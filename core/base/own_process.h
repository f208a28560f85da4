#pragma once

#include <atomic>
#include <optional>
#include <string>

namespace levin {

/// While one lives, the process is levin's own: its program, run_main() or a rank that levin has started. Otherwise levin is
/// one of the libraries of a program, whose signals, memory and standard error are not its own. Threading: any.
class OwnProcess {
 public:
  OwnProcess() { ++scopes_; }
  ~OwnProcess() { --scopes_; }
  OwnProcess(const OwnProcess&) = delete;
  OwnProcess& operator=(const OwnProcess&) = delete;

  static bool is_one() { return scopes_ > 0; }

 private:
  static std::atomic<int> scopes_;
};

/// While one lives, Trainers that its thread makes may start ranks by running the program again, as in a process of levin's
/// own; but what they come to is left here, and the process goes on.
class LaunchPermit {
 public:
  /// How a run has ended whose ranks this process has started.
  struct Outcome {
    int status = 0;
    std::string failure;  ///< the first one; empty: none was written down
  };
  /// What leaves the constructor of the Trainer then, on its way to where the permit was given. Nobody else is to catch it.
  struct RanksHaveEnded {};

  /// `call`: the number of the permits of the process before this one, by which ranks find the same.
  explicit LaunchPermit(int call);
  ~LaunchPermit();
  LaunchPermit(const LaunchPermit&) = delete;
  LaunchPermit& operator=(const LaunchPermit&) = delete;

  /// The innermost of this thread; null for none.
  static LaunchPermit* current();

  int call() const { return call_; }
  const std::optional<Outcome>& outcome() const { return outcome_; }
  [[noreturn]] void end_with(Outcome outcome);

 private:
  int call_;
  LaunchPermit* outer_;
  std::optional<Outcome> outcome_;
};

}  // namespace levin
