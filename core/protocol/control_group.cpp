#include "levin/core/protocol/control_group.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

ControlGroup::~ControlGroup() = default;

void ControlGroup::check_sizes(std::span<const std::byte> mine, std::span<const std::byte> all, const char* what) const {
  if (all.size() == mine.size() * static_cast<std::size_t>(size())) return;
  throw MisuseError(
      format("all_gather in {}: the buffer for all ranks has {} bytes instead of {} a rank", what, all.size(), mine.size()));
}

void SingleProcessGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  if (all.size() != mine.size()) {
    throw MisuseError(format("all_gather '{}' of one rank needs room for {} bytes, and got {}", what, mine.size(), all.size()));
  }
  std::copy(mine.begin(), mine.end(), all.begin());
}

std::string describe_different_calls(const std::vector<GroupCall>& by_rank) {
  const GroupCall& first = by_rank.front();
  if (std::all_of(by_rank.begin(), by_rank.end(), [&](const GroupCall& call) { return call == first; })) return "";
  const bool only_sizes =
      std::all_of(by_rank.begin(), by_rank.end(), [&](const GroupCall& call) { return call.what == first.what; });
  std::string text = "ranks met in different calls:";
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    text += format("\n  rank {}: {}", rank, by_rank[rank].what);
    if (only_sizes) text += format(" ({} bytes)", by_rank[rank].bytes);
  }
  return text;
}

}  // namespace levin
