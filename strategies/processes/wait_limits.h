#pragma once

#include <functional>
#include <string>

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

}  // namespace levin
