#pragma once

#include <signal.h>

#include <chrono>
#include <utility>
#include <vector>

#include "levin/core/files/descriptor.h"

namespace levin::cli {

/// While one lives, these signals do not end the process, but are waited for, whichever thread gets them. One at a time, in the
/// main thread.
class AwaitedSignals {
 public:
  /// Throws IoError.
  explicit AwaitedSignals(const std::vector<int>& signals);
  ~AwaitedSignals();
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;

  /// Waits for the next of them.
  int wait() const;
  /// The first that has come and is not this one, whether it was waited for or not; 0 for none.
  int pending_except(int signal) const;
  /// True when one came before this time was over.
  bool arrives_within(std::chrono::seconds time) const;

 private:
  Descriptor arrivals_;
  std::vector<std::pair<int, struct sigaction>> before_;
};

}  // namespace levin::cli
