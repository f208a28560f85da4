#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace levin {

/// When a rank arrived at an exchange of all ranks and left it, in seconds of its host's clock.
struct ExchangeSpan {
  double arrived = 0;
  double left = 0;
};

/// By how much a rank's clock is ahead of rank 0's.
inline double clock_ahead(const std::vector<ExchangeSpan>& first, const std::vector<ExchangeSpan>& own, std::size_t exchanges) {
  std::vector<double> differences;
  for (std::size_t index = 0; index < exchanges; ++index) differences.push_back(own[index].left - first[index].left);
  const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(exchanges / 2);
  std::nth_element(differences.begin(), middle, differences.end());
  return *middle;
}

/// waits[r][s]: seconds that rank r waited for rank s, the last to come, in exchanges of all ranks. `by_rank`: each rank's
/// exchanges, in the same order; those that some rank lacks at the end do not count. All leave together, so that hosts whose
/// clocks differ can be compared: by the median of the differences.
inline std::vector<std::vector<double>> waits_of_ranks(const std::vector<std::vector<ExchangeSpan>>& by_rank) {
  const std::size_t ranks = by_rank.size();
  std::vector<std::vector<double>> waits(ranks, std::vector<double>(ranks, 0.0));
  std::size_t exchanges = by_rank.front().size();
  for (const auto& own : by_rank) exchanges = std::min(exchanges, own.size());
  if (exchanges == 0) return waits;
  std::vector<double> ahead;
  for (const auto& own : by_rank) ahead.push_back(clock_ahead(by_rank.front(), own, exchanges));
  for (std::size_t index = 0; index < exchanges; ++index) {
    const auto arrived = [&](std::size_t rank) { return by_rank[rank][index].arrived - ahead[rank]; };
    std::size_t last = 0;
    for (std::size_t rank = 1; rank < ranks; ++rank) {
      if (arrived(rank) > arrived(last)) last = rank;
    }
    for (std::size_t rank = 0; rank < ranks; ++rank) waits[rank][last] += arrived(last) - arrived(rank);
  }
  return waits;
}

}  // namespace levin
