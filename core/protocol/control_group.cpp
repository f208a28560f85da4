#include "levin/core/protocol/control_group.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <sstream>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

bool are_alike(const std::vector<GroupCall>& calls, bool (*alike)(const GroupCall&, const GroupCall&)) {
  return std::all_of(calls.begin(), calls.end(), [&](const GroupCall& call) { return alike(call, calls.front()); });
}

bool same_what(const GroupCall& left, const GroupCall& right) { return left.what == right.what; }
bool same_operation(const GroupCall& left, const GroupCall& right) {
  return left.operation == right.operation && (left.operation != GroupOperation::kBroadcast || left.root == right.root);
}
bool same_size(const GroupCall& left, const GroupCall& right) {
  return left.operation != GroupOperation::kAllGather || left.bytes == right.bytes;
}

std::string operation_text(const GroupCall& call) {
  switch (call.operation) {
    case GroupOperation::kAllGather:
      return "all_gather";
    case GroupOperation::kGather:
      return "gather";
    case GroupOperation::kBroadcast:
      return format("broadcast from rank {}", call.root);
  }
  return "an unknown call";  // another program's number
}

}  // namespace

ControlGroup::~ControlGroup() = default;

void ControlGroup::check_sizes(std::span<const std::byte> mine, std::span<const std::byte> all, const char* what) const {
  if (all.size() == mine.size() * static_cast<std::size_t>(size())) return;
  throw MisuseError(
      format("all_gather in {}: the buffer for all ranks has {} bytes instead of {} a rank", what, all.size(), mine.size()));
}

void ControlGroup::check_root(int root, const char* what) const {
  if (root >= 0 && root < size()) return;
  throw MisuseError(format("broadcast in {}: there is no rank {} among {}", what, root, size()));
}

void SingleProcessGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  if (all.size() != mine.size()) {
    throw MisuseError(format("all_gather '{}' of one rank needs room for {} bytes, and got {}", what, mine.size(), all.size()));
  }
  std::copy(mine.begin(), mine.end(), all.begin());
}

std::vector<std::string> SingleProcessGroup::gather(std::string_view mine, std::uint64_t, const char*) {
  return {std::string(mine)};
}

std::string SingleProcessGroup::broadcast(std::string_view mine, int root, std::uint64_t, const char* what) {
  check_root(root, what);
  return std::string(mine);
}

std::string describe_different_calls(const std::vector<GroupCall>& by_rank, int first_rank) {
  const bool whats = !are_alike(by_rank, same_what);
  const bool operations = !are_alike(by_rank, same_operation);
  const bool sizes = !are_alike(by_rank, same_size);
  if (!whats && !operations && !sizes) return "";
  std::string text = "ranks met in different calls:";
  int rank = first_rank;
  for (const GroupCall& call : by_rank) {
    text += format("\n  rank {}: {}", rank++, call.what);
    if (whats) continue;
    text += operations ? format(" ({})", operation_text(call)) : format(" ({} bytes)", call.bytes);
  }
  return text;
}

std::string describe_too_long(const std::vector<GroupCall>& by_rank, std::uint64_t longest, int first_rank) {
  for (std::size_t index = 0; index < by_rank.size(); ++index) {
    const GroupCall& call = by_rank[index];
    if (call.operation == GroupOperation::kAllGather || call.bytes <= longest) continue;
    return format("rank {} announces {} bytes in {}, where {} are the most", first_rank + static_cast<int>(index), call.bytes,
                  call.what, longest);
  }
  return "";
}

std::vector<Votes> unpack_votes(std::span<const PublishedVotes> by_rank, std::int64_t sequence, int own_rank) {
  std::vector<Votes> votes;
  for (const PublishedVotes& published : by_rank) {
    if (published.sequence != sequence) {
      throw DesyncError(
          format("rank {} is in gradient reduction {}, rank {} in {}: ranks do not call backward in the same order",
                 votes.size(), published.sequence, own_rank, sequence));
    }
    votes.push_back(unpack_votes(published.votes));
  }
  return votes;
}

VoteChannel::~VoteChannel() = default;

void GatheredVoteChannel::publish(std::int64_t sequence, const Votes& votes) { mine_ = {sequence, pack(votes)}; }

std::vector<Votes> GatheredVoteChannel::read(std::int64_t sequence) {
  std::vector<PublishedVotes> all(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::as_bytes(std::span(&mine_, 1)), std::as_writable_bytes(std::span(all)), "the votes of a step");
  return unpack_votes(all, sequence, group_.rank());
}

namespace {
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kStop = 1;
constexpr std::uint64_t kEndEpoch = 2;
constexpr std::uint64_t kHasNext = 4;
constexpr std::uint64_t kParametersChanged = 8;
constexpr std::uint64_t kLossIsBad = 16;
constexpr int kSignalShift = 8;
constexpr int kGradientWeightShift = 16;
constexpr int kAccumulateShift = 47;
}  // namespace

Votes merge(const std::vector<Votes>& votes) {
  Votes merged;
  merged.has_next = false;
  if (!votes.empty()) merged.accumulate_grad_batches = votes.front().accumulate_grad_batches;
  for (const Votes& vote : votes) {
    merged.stop |= vote.stop;
    merged.end_epoch |= vote.end_epoch;
    merged.has_next |= vote.has_next;
    merged.parameters_changed |= vote.parameters_changed;
    merged.loss_is_bad |= vote.loss_is_bad;
    if (merged.signal == 0) merged.signal = vote.signal;
    if (__builtin_add_overflow(merged.gradient_weight, vote.gradient_weight, &merged.gradient_weight)) {
      merged.gradient_weight = std::numeric_limits<std::int32_t>::max();
    }
  }
  return merged;
}

std::uint64_t pack(const Votes& votes) {
  std::uint64_t word = kPresent;
  if (votes.stop) word |= kStop;
  if (votes.end_epoch) word |= kEndEpoch;
  if (votes.has_next) word |= kHasNext;
  if (votes.parameters_changed) word |= kParametersChanged;
  if (votes.loss_is_bad) word |= kLossIsBad;
  word |= (static_cast<std::uint64_t>(votes.signal) & 0x7f) << kSignalShift;
  word |= (static_cast<std::uint64_t>(votes.gradient_weight) & 0x7fffffff) << kGradientWeightShift;
  word |= static_cast<std::uint64_t>(std::min(votes.accumulate_grad_batches, 0xffff)) << kAccumulateShift;
  return word;
}

Votes unpack_votes(std::uint64_t word) {
  Votes votes;
  votes.stop = (word & kStop) != 0;
  votes.end_epoch = (word & kEndEpoch) != 0;
  votes.has_next = (word & kHasNext) != 0;
  votes.parameters_changed = (word & kParametersChanged) != 0;
  votes.loss_is_bad = (word & kLossIsBad) != 0;
  votes.signal = static_cast<std::int32_t>((word >> kSignalShift) & 0x7f);
  votes.gradient_weight = static_cast<std::int32_t>((word >> kGradientWeightShift) & 0x7fffffff);
  votes.accumulate_grad_batches = static_cast<std::int32_t>((word >> kAccumulateShift) & 0xffff);
  return votes;
}

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
