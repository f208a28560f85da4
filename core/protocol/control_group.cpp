#include "levin/core/protocol/control_group.h"

#include <algorithm>
#include <cstring>

#include "levin/core/error.h"
#include "levin/core/protocol/peer_limits.h"

namespace levin {

ControlGroup::~ControlGroup() = default;

void SingleProcessGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  if (all.size() != mine.size()) {
    throw MisuseError(std::string("all_gather '") + what + "' of one rank needs room for " + std::to_string(mine.size()) +
                      " bytes, and got " + std::to_string(all.size()));
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
    text += "\n  rank " + std::to_string(rank) + ": " + std::string(by_rank[rank].what);
    if (only_sizes) text += " (" + std::to_string(by_rank[rank].bytes) + " bytes)";
  }
  return text;
}

std::vector<std::string> all_gather_text(ControlGroup& group, const std::string& mine, const char* what) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  group.all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)), what);

  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (lengths[rank] <= kLongestText) continue;
    throw DesyncError("rank " + std::to_string(rank) + " announces a text of " + std::to_string(lengths[rank]) + " bytes in " +
                      what + ", where " + std::to_string(kLongestText) + " are the most");
  }
  const std::uint64_t longest = *std::max_element(lengths.begin(), lengths.end());
  std::string padded = mine;
  padded.resize(longest);
  std::string joined(longest * ranks, '\0');
  group.all_gather(std::as_bytes(std::span(padded)), std::as_writable_bytes(std::span(joined)), what);

  std::vector<std::string> texts;
  texts.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) texts.push_back(joined.substr(rank * longest, lengths[rank]));
  return texts;
}

}  // namespace levin
