#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/machine_memory.h"

// What monitors and profilers make of numbers that others have measured.
namespace levin {

/// Tells memory that grows steadily, epoch after epoch, from what is allocated once, and from what comes and goes.
class MemoryGrowth {
 public:
  /// `least`: bytes an epoch that count as growth.
  explicit MemoryGrowth(std::int64_t least) : least_(least) {}

  /// After an epoch: bytes in use.
  void add(std::int64_t in_use) {
    const std::int64_t before = std::exchange(last_, in_use);
    if (before < 0) return;
    const std::int64_t grown = in_use - before;
    // What is far less than before, or far more, is growth of another kind.
    const auto differs = [grown](std::int64_t earlier) { return grown < earlier / 4 || earlier < grown / 4; };
    if (grown < least_ || std::any_of(growth_.begin(), growth_.end(), differs)) growth_.clear();
    if (grown >= least_) growth_.push_back(grown);
  }
  /// In how many epochs, up to the last, it grew, by no less than a quarter of what it grew by in any of them.
  std::int64_t epochs() const { return static_cast<std::int64_t>(growth_.size()); }
  /// In all of these, bytes.
  std::int64_t bytes() const { return std::accumulate(growth_.begin(), growth_.end(), std::int64_t{0}); }
  std::int64_t in_use() const { return last_; }

 private:
  std::int64_t least_;
  std::int64_t last_ = -1;  ///< -1: no epoch yet
  std::vector<std::int64_t> growth_;
};

/// When a rank came to a meeting of all ranks and went on, in seconds of its host's clock.
struct MeetingSpan {
  double arrived = 0;
  double left = 0;
};

/// By how much a rank's clock is ahead of rank 0's.
inline double clock_ahead(const std::vector<MeetingSpan>& first, const std::vector<MeetingSpan>& own, std::size_t meetings) {
  std::vector<double> differences;
  for (std::size_t index = 0; index < meetings; ++index) differences.push_back(own[index].left - first[index].left);
  const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(meetings / 2);
  std::nth_element(differences.begin(), middle, differences.end());
  return *middle;
}

/// waits[r][s]: seconds that rank r waited for rank s, the last to come, in meetings of all ranks. `by_rank`: each rank's
/// meetings, in the same order; those that some rank lacks at the end do not count. Ranks go on together, so that hosts whose
/// clocks differ can be compared: by the median of the differences.
inline std::vector<std::vector<double>> waits_of_ranks(const std::vector<std::vector<MeetingSpan>>& by_rank) {
  const std::size_t ranks = by_rank.size();
  std::vector<std::vector<double>> waits(ranks, std::vector<double>(ranks, 0.0));
  std::size_t meetings = by_rank.front().size();
  for (const auto& own : by_rank) meetings = std::min(meetings, own.size());
  if (meetings == 0) return waits;
  std::vector<double> ahead;
  for (const auto& own : by_rank) ahead.push_back(clock_ahead(by_rank.front(), own, meetings));
  for (std::size_t index = 0; index < meetings; ++index) {
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

namespace levin::detail {

/// In tenths of a per cent, as psutil rounds.
inline double percent_of(double part, double whole) { return whole > 0 ? std::round(part / whole * 1000) / 10 : 0; }

/// How busy this machine's processors are, from one look at /proc/stat to the next.
class ProcessorLoad {
 public:
  /// `stat`: the text of /proc/stat, which counts from the machine's start. Gives the share of time in which processors worked
  /// since the last look, in per cent; of the first look, since the start.
  double look(std::istream& stat) {
    // Those of guests count in `user` and `nice` too.
    enum { kUser, kNice, kSystem, kIdle, kIoWait, kIrq, kSoftIrq, kSteal, kFields };
    std::array<double, kFields> now{};
    std::string name;
    stat >> name;
    for (double& ticks : now) stat >> ticks;
    double all = 0;
    double waiting = 0;
    for (std::size_t field = 0; field < kFields; ++field) {
      // What a processor waited for may be counted again when it comes back.
      const double passed = std::max(0.0, now[field] - before_[field]);
      all += passed;
      if (field == kIdle || field == kIoWait) waiting += passed;
    }
    before_ = now;
    return percent_of(all - waiting, all);
  }

 private:
  std::array<double, 8> before_{};
};

/// How much of the machine's memory is in use, and of the swap space, in per cent, by Lightning's names.
inline std::map<std::string, double> memory_load(std::istream& meminfo) {
  std::map<std::string, double> bytes = machine_memory(meminfo);
  const auto used = [&](const char* total, const char* free) { return percent_of(bytes[total] - bytes[free], bytes[total]); };
  return {{"cpu_vm_percent", used("MemTotal", "MemAvailable")}, {"cpu_swap_percent", used("SwapTotal", "SwapFree")}};
}

}  // namespace levin::detail
