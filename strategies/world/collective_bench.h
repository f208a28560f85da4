#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/accelerator.h"

namespace levin {

/// What a collective took. Throughputs are nccl-tests', in GB (10^9 bytes) a second.
struct CollectiveTime {
  std::string group;       ///< "shared memory", "gloo (metrics)"
  std::string collective;  ///< "all_reduce", "all_gather", "broadcast"
  int ranks = 1;
  std::int64_t bytes = 0;  ///< of the whole tensor: what is reduced or broadcast, what all have gathered
  double seconds = 0;      ///< on the slowest rank

  /// Bytes of the tensor in a second.
  double throughput() const { return static_cast<double>(bytes) / seconds / 1e9; }
  /// What each link carries, by the collective's own lower bound: it can be compared with the hardware's, and over any number
  /// of ranks.
  double bus_bandwidth() const;
};

/// Measures every collective among the ranks that this process has joined, for tensors on `device` of sizes from `least` to
/// `most` bytes, each four times the one before, less what does not divide over ranks: over what gradients travel over; over
/// Gloo, where they do not, on the CPU; and all_gather over the group of metrics, for what it carries. Ranks: all, with the
/// same arguments.
std::vector<CollectiveTime> measure_collectives(const Accelerator& accelerator, at::Device device, std::int64_t least,
                                                std::int64_t most);

}  // namespace levin
