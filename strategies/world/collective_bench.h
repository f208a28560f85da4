#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "levin/core/accelerator.h"

namespace levin {

/// The time of a collective. Throughputs are defined as in nccl-tests, in GB (10^9 bytes) per second.
struct CollectiveTime {
  std::string group;       ///< "shared memory", "gloo (metrics)"
  std::string collective;  ///< "all_reduce", "all_gather", "broadcast"
  int ranks = 1;
  std::int64_t bytes = 0;  ///< of the whole tensor: reduced, broadcast or gathered
  double seconds = 0;      ///< on the slowest rank

  /// Bytes of the tensor per second.
  double throughput() const { return static_cast<double>(bytes) / seconds / 1e9; }
  /// The throughput of each link, by the collective's lower bound, which compares with the hardware's for any number of ranks.
  double bus_bandwidth() const;
};

/// Measures every collective among the ranks that this process has joined, for tensors on `device` of sizes from `least` to
/// `most` bytes, each four times the previous one, less what does not divide over ranks: over the transport of gradients; over
/// Gloo, if that is another, on the CPU; and all_gather over the group of metrics, for its sizes. Ranks: all, with the same
/// arguments.
std::vector<CollectiveTime> measure_collectives(const Accelerator& accelerator, at::Device device, std::int64_t least,
                                                std::int64_t most);

}  // namespace levin
