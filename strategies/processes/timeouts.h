#pragma once

namespace levin {

/// How long ranks wait for one another.
struct Timeouts {
  double stall_report_seconds = 60;  ///< then the watch of one rank prints where all ranks are
  double timeout_seconds = 1800;     ///< then the run ends with that table as its error
};

}  // namespace levin
