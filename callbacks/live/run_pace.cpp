#include "levin/callbacks/live/run_pace.h"

#include <algorithm>

namespace levin {

std::optional<double> seconds_to_end(const RunPace& pace) {
  std::optional<double> least = pace.seconds_left;
  const auto take = [&](std::optional<std::int64_t> left, std::int64_t done) {
    if (!left || done <= 0 || pace.seconds <= 0) return;
    const double seconds = static_cast<double>(std::max<std::int64_t>(*left, 0)) * pace.seconds / static_cast<double>(done);
    least = std::min(least.value_or(seconds), seconds);
  };
  take(pace.batches_left, pace.batches);
  take(pace.steps_left, pace.steps);
  if (least) least = std::max(*least, 0.0);
  return least;
}

}  // namespace levin
