#pragma once

#include <sched.h>

#include <cstdint>
#include <vector>

namespace levin {

/// Where a rank may run. Plain bytes: ranks exchange it.
struct RankCores {
  std::uint64_t host = 0;  ///< of ranks under one kernel the same, whose numbers of cores mean the same
  cpu_set_t cores{};

  static RankCores own();
};

/// The cores of a host, among the ranks of a run that are on it. A launcher may have bound each of them to cores of its own.
struct HostCores {
  int ranks = 1;
  int cores = 1;  ///< on which one or another of these ranks may run
  int share = 1;  ///< of one rank: where it may run, but for what it shares with others; at least 1
};

HostCores cores_of_host(const std::vector<RankCores>& by_rank, int rank);

}  // namespace levin
