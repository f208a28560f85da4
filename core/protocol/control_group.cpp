#include "levin/core/protocol/control_group.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "levin/core/error.h"

namespace levin {

ControlGroup::~ControlGroup() = default;

void SingleProcessGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  if (all.size() != mine.size()) {
    throw MisuseError(std::string("all_gather '") + what + "' of one rank needs room for " + std::to_string(mine.size()) +
                      " bytes, and got " + std::to_string(all.size()));
  }
  std::copy(mine.begin(), mine.end(), all.begin());
}

std::vector<std::string> all_gather_text(ControlGroup& group, const std::string& mine, const char* what) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::uint64_t length = mine.size();
  std::vector<std::uint64_t> lengths(ranks);
  group.all_gather(std::as_bytes(std::span(&length, 1)), std::as_writable_bytes(std::span(lengths)), what);

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
