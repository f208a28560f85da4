#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "levin/cli/sweep/awaited_signals.h"
#include "levin/cli/sweep/search_space.h"
#include "levin/cli/sweep/sweep_state.h"
#include "levin/core/config/value.h"
#include "levin/core/files/descriptor.h"

namespace levin::cli {

/// Draws the values of trials by TPE (the tree-structured Parzen estimator of Bergstra et al., 2011): Optuna's, in a Python
/// process. Threading: the one that made it.
class OptunaSampler {
 public:
  /// What `SweepState::sampler` saves of such a sampler.
  static Value settings(const SearchSpace& space, std::uint64_t seed);

  /// Starts $PYTHON, python3 by default, and passes it the trials that have ended. `signals`: end every wait for it, those of
  /// children aside; they have to live as long. `patience`: how long it may take to answer. Throws IoError where it has no
  /// Optuna, and what ask() throws.
  OptunaSampler(const SweepState& sweep, const AwaitedSignals& signals,
                std::chrono::milliseconds patience = std::chrono::minutes(2));
  /// Ends the process, by force where it does not end itself.
  ~OptunaSampler();
  OptunaSampler(const OptunaSampler&) = delete;
  OptunaSampler& operator=(const OptunaSampler&) = delete;

  /// The values for a new trial. Throws IoError where the process has ended or does not answer, and Interrupted after a signal.
  Assignment ask(const Trial& trial);
  /// A trial that `ask` gave its values to, or one of before, has ended.
  void tell(const Trial& trial);

 private:
  void end();
  void write(const Value& message);
  Value read();
  /// Until the process takes or gives something.
  void wait_for(short events, std::chrono::steady_clock::time_point deadline) const;

  const AwaitedSignals& signals_;
  std::chrono::milliseconds patience_;
  Descriptor stream_;  ///< to its standard input, and from its standard output
  std::string unread_;
  pid_t process_ = -1;
};

}  // namespace levin::cli
