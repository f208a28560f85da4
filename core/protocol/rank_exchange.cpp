#include "levin/core/protocol/rank_exchange.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <sstream>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/format.h"
#include "levin/core/base/hash.h"
#include "levin/core/error.h"

namespace levin {

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::optional<RankDifference> difference(const std::string& first_text, const std::string& other_text, int rank) {
  const std::vector<std::string> first = lines_of(first_text);
  const std::vector<std::string> other = lines_of(other_text);
  const auto line_of = [](const std::vector<std::string>& lines, std::size_t index) {
    return index < lines.size() ? lines[index] : "nothing more";
  };
  for (std::size_t index = 0; index < std::max(first.size(), other.size()); ++index) {
    if (index < std::min(first.size(), other.size()) && first[index] == other[index]) continue;
    return RankDifference{rank, index + 1, line_of(first, index), line_of(other, index)};
  }
  return std::nullopt;
}

}  // namespace

Meeting::Meeting(const std::string& what, const std::string& every_rank)
    : text_(format("{} (every rank comes here, since {})", what, every_rank)) {}

std::string RankDifference::str() const {
  return format("Rank 0 has `{}`, rank {} has `{}` (line {})", first, rank, other, line);
}

std::vector<std::string> RankExchange::gather_text(const std::string& mine, const Meeting& meeting, std::uint64_t longest) {
  // Through rank 0, so that a rank gets what all have, and not as often the longest.
  std::string joined;
  for (const std::string& text : gather_text_to_rank_zero(mine, meeting, longest)) append_text(joined, text);
  const auto ranks = static_cast<std::size_t>(group_.size());
  joined = broadcast_text(joined, meeting, ranks * (longest + sizeof(std::uint32_t)));
  ByteReader reader(joined, "rank 0 has joined the texts of too few ranks");
  std::vector<std::string> texts;
  while (texts.size() < ranks) texts.push_back(reader.text());
  return texts;
}

std::vector<std::string> RankExchange::gather_text_to_rank_zero(const std::string& mine, const Meeting& meeting,
                                                                std::uint64_t longest) {
  return group_.gather(mine, longest, meeting.text());
}

std::string RankExchange::broadcast_text(const std::string& mine, const Meeting& meeting, std::uint64_t longest) {
  return group_.broadcast(mine, /*root=*/0, longest, meeting.text());
}

std::vector<std::byte> RankExchange::gather_bytes(std::span<const std::byte> mine, const Meeting& meeting) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(group_.size()));
  group_.all_gather(mine, all, meeting.text());
  return all;
}

std::optional<std::vector<std::string>> RankExchange::gather_if_different(const std::string& mine, const Meeting& meeting) {
  using Summary = std::array<std::uint64_t, 2>;
  Fnv1aHash hash;  // not std::hash, which hosts with another standard library compute in another way
  hash.add(mine);
  const auto summaries = gather_values(Summary{mine.size(), hash.value()}, meeting);
  const bool same = std::all_of(summaries.begin(), summaries.end(), [&](const auto& other) { return other == summaries[0]; });
  return same ? std::nullopt : std::optional(gather_text(mine, meeting));
}

std::optional<RankDifference> RankExchange::first_difference(const std::string& mine, const Meeting& meeting) {
  const auto texts = gather_if_different(mine, meeting);
  for (std::size_t rank = 1; texts && rank < texts->size(); ++rank) {
    if (const auto found = difference(texts->front(), (*texts)[rank], static_cast<int>(rank))) return found;
  }
  return std::nullopt;
}

}  // namespace levin
