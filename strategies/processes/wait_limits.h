#pragma once

#include <functional>
#include <string>

#include "levin/strategies/processes/failure_record.h"

namespace levin {

/// How long ranks wait for one another.
struct WaitLimits {
  double stall_report_seconds = 60;  ///< then one rank prints where all ranks are
  double timeout_seconds = 1800;     ///< then the run ends with that table as its error
  /// Takes the table. Default: stderr.
  std::function<void(const std::string&)> print;
};

/// Hands the text to limits.print, or to stderr in one write.
void print_report(const WaitLimits& limits, const std::string& text);

/// The line with which a failed run's error begins: "levin: rank 1 failed in …".
void print_failure(const FailureRecord& failure) noexcept;

}  // namespace levin
