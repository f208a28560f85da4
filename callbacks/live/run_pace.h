#pragma once

#include <cstdint>
#include <optional>

namespace levin {

/// How fast a run progresses. Only the work of this process counts, not that of the run that it resumes.
struct RunPace {
  double seconds = 0;  ///< of training and validation, without pauses
  std::int64_t batches = 0;
  std::int64_t steps = 0;
  // Until each limit; unset: there is none, or it is not known.
  std::optional<std::int64_t> batches_left = {};
  std::optional<std::int64_t> steps_left = {};
  std::optional<double> seconds_left = {};
};

/// Seconds until the first of the limits is reached, at the pace so far; nothing where no limit is known, or no pace yet.
std::optional<double> seconds_to_end(const RunPace& pace);

}  // namespace levin
