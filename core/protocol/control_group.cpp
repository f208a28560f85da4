#include "levin/core/protocol/control_group.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <sstream>
#include <utility>

#include "levin/core/base/byte_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

namespace {

std::string operation_text(const GroupCall& call) {
  if (call.operation == GroupOperation::kAllGather) return "all_gather";
  if (call.operation == GroupOperation::kGather) return "gather";
  if (call.operation == GroupOperation::kBroadcast) return format("broadcast from rank {}", call.root);
  return "an unknown call";  // another program's number
}

}  // namespace

ControlGroup::~ControlGroup() = default;

void ControlGroup::check_sizes(std::span<const std::byte> mine, std::span<const std::byte> all, const char* what) const {
  if (all.size() == mine.size() * static_cast<std::size_t>(size())) return;
  throw MisuseError(
      format("all_gather in {}: the buffer for all ranks has {} bytes instead of {} per rank", what, all.size(), mine.size()));
}

void ControlGroup::check_root(int root, const char* what) const {
  if (root >= 0 && root < size()) return;
  throw MisuseError(format("broadcast in {}: there is no rank {} among {}", what, root, size()));
}

void SingleProcessGroup::all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) {
  check_sizes(mine, all, what);
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
  const auto differ_in = [&](const auto& what_of) {
    return std::any_of(by_rank.begin(), by_rank.end(),
                       [&](const GroupCall& call) { return what_of(call) != what_of(by_rank.front()); });
  };
  const bool whats = differ_in([](const GroupCall& call) { return call.what; });
  const bool operations = differ_in([](const GroupCall& call) {
    return std::pair(call.operation, call.operation == GroupOperation::kBroadcast ? call.root : 0);
  });
  const bool sizes = differ_in(
      [](const GroupCall& call) { return call.operation == GroupOperation::kAllGather ? call.bytes : std::uint64_t{0}; });
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
    return format("rank {} announces {} bytes in {}, where the limit is {}", first_rank + static_cast<int>(index), call.bytes,
                  call.what, longest);
  }
  return "";
}

std::vector<Votes> unpack_votes(std::span<const PublishedVotes> by_rank, std::int64_t sequence, int own_rank) {
  std::vector<Votes> votes;
  for (const PublishedVotes& published : by_rank) {
    if (published.sequence != sequence) {
      throw DesyncError(
          format("rank {} last published votes for gradient reduction {}, rank {} is in {}: ranks do not call backward in the "
                 "same order",
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
/// The votes that are a bit each, from the lowest.
constexpr std::array kFlags = {&Votes::stop,        &Votes::end_epoch,    &Votes::has_next,        &Votes::parameters_changed,
                               &Votes::loss_is_bad, &Votes::change_pause, &Votes::save_checkpoint, &Votes::validate};
constexpr int kSignalShift = kFlags.size();
constexpr int kGradientWeightShift = 16;
constexpr int kAccumulateShift = 47;
}  // namespace

Votes merge(const std::vector<Votes>& votes) {
  Votes merged;
  merged.has_next = false;
  if (!votes.empty()) merged.accumulate_grad_batches = votes.front().accumulate_grad_batches;
  for (const Votes& vote : votes) {
    for (bool Votes::*const flag : kFlags) merged.*flag |= vote.*flag;
    if (merged.signal == 0) merged.signal = vote.signal;
    if (__builtin_add_overflow(merged.gradient_weight, vote.gradient_weight, &merged.gradient_weight)) {
      merged.gradient_weight = std::numeric_limits<std::int32_t>::max();
    }
  }
  return merged;
}

std::uint64_t pack(const Votes& votes) {
  std::uint64_t word = kPresent;
  for (std::size_t bit = 0; bit < kFlags.size(); ++bit) word |= std::uint64_t{votes.*kFlags[bit]} << bit;
  word |= (static_cast<std::uint64_t>(votes.signal) & 0x7f) << kSignalShift;
  word |= (static_cast<std::uint64_t>(votes.gradient_weight) & 0x7fffffff) << kGradientWeightShift;
  word |= static_cast<std::uint64_t>(std::min(votes.accumulate_grad_batches, 0xffff)) << kAccumulateShift;
  return word;
}

Votes unpack_votes(std::uint64_t word) {
  Votes votes;
  for (std::size_t bit = 0; bit < kFlags.size(); ++bit) votes.*kFlags[bit] = (word >> bit & 1) != 0;
  votes.signal = static_cast<std::int32_t>((word >> kSignalShift) & 0x7f);
  votes.gradient_weight = static_cast<std::int32_t>((word >> kGradientWeightShift) & 0x7fffffff);
  votes.accumulate_grad_batches = static_cast<std::int32_t>((word >> kAccumulateShift) & 0xffff);
  return votes;
}

namespace {

std::optional<std::string> next_line(std::istream& text) {
  std::string line;
  return std::getline(text, line) ? std::optional(line) : std::nullopt;
}

std::optional<RankDifference> difference(const std::string& first_text, const std::string& other_text, int rank) {
  std::istringstream first(first_text), other(other_text);
  for (std::size_t line = 1;; ++line) {
    const auto of_first = next_line(first), of_other = next_line(other);
    if (!of_first && !of_other) return std::nullopt;
    if (of_first == of_other) continue;
    return RankDifference{rank, line, of_first.value_or("nothing more"), of_other.value_or("nothing more")};
  }
}

}  // namespace

ExchangeSite::ExchangeSite(const std::string& what, const std::string& every_rank)
    : text_(format("{} (every rank comes here, since {})", what, every_rank)) {}

std::string RankDifference::str() const {
  return format("Rank 0 has `{}`, rank {} has `{}` (line {})", first, rank, other, line);
}

std::vector<std::string> RankExchange::gather_text(const std::string& mine, const ExchangeSite& site, std::uint64_t longest) {
  // Through rank 0, so that a rank gets what all have, and not as often the longest.
  std::string joined;
  for (const std::string& text : gather_text_to_rank_zero(mine, site, longest)) append_text(joined, text);
  const auto ranks = static_cast<std::size_t>(group_.size());
  joined = broadcast_text(joined, site, ranks * (longest + sizeof(std::uint32_t)));
  ByteReader reader(joined, "rank 0 has joined the texts of too few ranks");
  std::vector<std::string> texts;
  while (texts.size() < ranks) texts.push_back(reader.text());
  return texts;
}

std::vector<std::string> RankExchange::gather_text_to_rank_zero(const std::string& mine, const ExchangeSite& site,
                                                                std::uint64_t longest) {
  return group_.gather(mine, longest, site.text());
}

std::string RankExchange::broadcast_text(const std::string& mine, const ExchangeSite& site, std::uint64_t longest) {
  return group_.broadcast(mine, /*root=*/0, longest, site.text());
}

std::vector<std::byte> RankExchange::gather_bytes(std::span<const std::byte> mine, const ExchangeSite& site) {
  std::vector<std::byte> all(mine.size() * static_cast<std::size_t>(group_.size()));
  group_.all_gather(mine, all, site.text());
  return all;
}

std::optional<std::vector<std::string>> RankExchange::gather_if_different(const std::string& mine, const ExchangeSite& site) {
  using Summary = std::array<std::uint64_t, 2>;
  Fnv1aHash hash;  // not std::hash, which hosts with another standard library compute in another way
  hash.add(mine);
  const auto summaries = gather_values(Summary{mine.size(), hash.value()}, site);
  const bool same = std::all_of(summaries.begin(), summaries.end(), [&](const auto& other) { return other == summaries[0]; });
  return same ? std::nullopt : std::optional(gather_text(mine, site));
}

std::optional<RankDifference> RankExchange::first_difference(const std::string& mine, const ExchangeSite& site) {
  const auto texts = gather_if_different(mine, site);
  for (std::size_t rank = 1; texts && rank < texts->size(); ++rank) {
    if (const auto found = difference(texts->front(), (*texts)[rank], static_cast<int>(rank))) return found;
  }
  return std::nullopt;
}

}  // namespace levin
