#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace levin::cli {

/// What a training step of one rank takes, in seconds. Parts do not overlap, and add up to the step.
struct StepTimes {
  double forward = 0;
  double backward = 0;  ///< the reduction of gradients included, where there is one
  double optimizer = 0;
  double rest = 0;  ///< the loader, hooks and rows

  double step() const { return forward + backward + optimizer + rest; }
};

/// Means over the faster half of the steps: what else the machine did in the others does not count.
StepTimes typical(std::vector<StepTimes> steps);

/// Of one rank: its own work, measured without other ranks, and steps with them.
struct RankTimes {
  StepTimes alone;  ///< gradients stay a rank's own, so that there is no optimizer's step either
  StepTimes together;
  double reduction = 0;  ///< of all gradients, by itself

  /// Its own part of a step: a rank that has more of it lets the others wait.
  double work() const { return alone.forward + alone.backward + together.optimizer; }
  double backward() const;
  /// The part of the reduction for which a step waits, waiting for slower ranks included.
  double exposed() const { return together.backward - backward(); }
  /// The part that is hidden behind the backward pass.
  double overlapped() const;
};

/// What a step of a size of buckets takes.
struct BucketTime {
  double bucket_cap_mb = 0;
  double step = 0;  ///< seconds, on the slowest rank
};

/// A row for each rank, milliseconds.
std::string rank_table(const std::vector<RankTimes>& ranks);
/// The same as CSV, in seconds.
std::string rank_csv(const std::vector<RankTimes>& ranks);
/// "Rank 1 is the slowest: …"
std::string slowest_rank(const std::vector<RankTimes>& ranks);
/// A row for each size.
std::string bucket_table(const std::vector<BucketTime>& times);
/// Which size to set, where it gains more than measurements differ by. `present`: the one that the configuration has.
std::string bucket_proposal(const std::vector<BucketTime>& times, double present);
/// Sizes worth a try for so many bytes of gradients, the present one among them, ascending.
std::vector<double> bucket_sizes(std::int64_t gradient_bytes, double present);

}  // namespace levin::cli
