#pragma once

#include <vector>

namespace levin {

/// When a rank came to a meeting of all ranks and went on, in seconds of its host's clock.
struct MeetingSpan {
  double arrived = 0;
  double left = 0;
};

/// waits[r][s]: seconds that rank r waited for rank s, the last to come, in meetings of all ranks. `by_rank`: each rank's
/// meetings, in the same order; those that some rank lacks at the end do not count. Ranks go on together, so that hosts whose
/// clocks differ can be compared: by the median of the differences.
std::vector<std::vector<double>> waits_of_ranks(const std::vector<std::vector<MeetingSpan>>& by_rank);

}  // namespace levin
