#include "levin/strategies/host/host_cores.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/process.h"

namespace levin {

RankCores RankCores::own() {
  std::string kernel;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> kernel;
  Fnv1aHash hash;
  hash.add(kernel.empty() ? host_name() : kernel);
  RankCores own{.host = hash.value()};
  if (sched_getaffinity(0, sizeof(own.cores), &own.cores) == 0) return own;
  // More of them than the set has room for.
  for (int core = 0; core < std::min(usable_cores(), CPU_SETSIZE); ++core) CPU_SET(core, &own.cores);
  return own;
}

HostCores cores_of_host(const std::vector<RankCores>& by_rank, int rank) {
  const RankCores& own = by_rank.at(static_cast<std::size_t>(rank));
  std::vector<int> ranks_on(CPU_SETSIZE);
  HostCores result{.ranks = 0, .cores = 0};
  for (const RankCores& other : by_rank) {
    if (other.host != own.host) continue;
    ++result.ranks;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &other.cores) && ranks_on[static_cast<std::size_t>(core)]++ == 0) ++result.cores;
    }
  }
  double share = 0;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &own.cores)) share += 1.0 / ranks_on[static_cast<std::size_t>(core)];
  }
  constexpr double kRounding = 1e-6;
  result.share = std::max(1, static_cast<int>(share + kRounding));
  return result;
}

}  // namespace levin
