#include "levin/strategies/transport/host_layout.h"

#include <algorithm>
#include <set>

namespace levin {

std::optional<HostLayout> host_layout(const std::vector<std::string>& host_of_rank) {
  const int ranks = static_cast<int>(host_of_rank.size());
  const std::set<std::string> names(host_of_rank.begin(), host_of_rank.end());
  const int hosts = static_cast<int>(names.size());
  if (ranks == 0 || ranks % hosts != 0) return std::nullopt;
  const HostLayout layout{.hosts = hosts, .ranks_per_host = ranks / hosts};
  // As many blocks as names: where each block has one name, no two have the same.
  for (int rank = 0; rank < ranks; ++rank) {
    const int first = layout.first_rank_of(layout.host_of(rank));
    if (host_of_rank[static_cast<std::size_t>(rank)] != host_of_rank[static_cast<std::size_t>(first)]) return std::nullopt;
  }
  return layout;
}

}  // namespace levin
