#include "levin/core/protocol/vote_channel.h"

#include <algorithm>
#include <limits>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

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

}  // namespace levin
