#pragma once

#include <string>

#include "levin/strategies/processes/failure_record.h"

namespace levin {

/// How long ranks wait for one another.
struct WaitLimits {
  double stall_report_seconds = 60;  ///< then the watch of one rank prints where all ranks are
  double timeout_seconds = 1800;     ///< then the run ends with that table as its error
};

/// Writes the text to stderr in one write, as lines of its own.
void print_report(const std::string& text);

/// The line with which a failed run's error begins: "levin: rank 1 failed in …".
void print_failure(const FailureRecord& failure) noexcept;

}  // namespace levin
