#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/protocol/simulation/program.h"

namespace levin::testing {

/// What one rank must see after a boundary.
struct ExpectedViews {
  MetricMap callback;
  MetricMap logged;
  MetricMap progress_bar;
  MetricMap local_row;
  MetricMap objects;  ///< what compute() of each metric object gives
};

/// The expected result of one boundary.
struct ExpectedBoundary {
  std::size_t phase = 0;
  Votes votes;
  MetricMap logger_row;
  MetricMap monitored;
  std::vector<MetricMap> rank_rows;
  std::vector<ExpectedViews> views;  ///< by rank
  std::int64_t collectives = 0;      ///< since the start
};

/// How a rank ends.
struct ExpectedEnd {
  enum Type { kWell, kMisuse, kDesync, kOwnFault };
  Type type = kWell;
  std::vector<std::string> texts;  ///< the error contains them
  bool same_on_all = false;        ///< the whole error is the same on all ranks that end so
};

struct ExpectedRun {
  std::vector<ExpectedBoundary> boundaries;
  std::vector<ExpectedEnd> ends;                   ///< by rank
  std::vector<std::vector<std::string>> warnings;  ///< in order; each contains these texts
};

/// Works out in one thread, from the lists of all values logged, what a program must do. Knows nothing of frames.
ExpectedRun expect(const Program& program);

}  // namespace levin::testing
