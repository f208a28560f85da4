#pragma once

#include <optional>
#include <string>
#include <vector>

namespace levin {

/// Hosts with as many ranks each: host h has ranks [h * ranks_per_host, (h + 1) * ranks_per_host).
struct HostLayout {
  int hosts = 1;
  int ranks_per_host = 1;

  int host_of(int rank) const { return rank / ranks_per_host; }
  /// Among the ranks of its host, counted from 0.
  int place_of(int rank) const { return rank % ranks_per_host; }
  int first_rank_of(int host) const { return host * ranks_per_host; }
  bool operator==(const HostLayout&) const = default;
};

/// From what each rank calls its host. Nothing where hosts have different numbers of ranks, or the ranks of one do not follow
/// one another.
std::optional<HostLayout> host_layout(const std::vector<std::string>& host_of_rank);

}  // namespace levin
