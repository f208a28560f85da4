#include "levin/core/protocol/vote_channel.h"

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

void SingleProcessVoteChannel::publish(std::int64_t sequence, const Votes& votes) {
  sequence_ = sequence;
  votes_ = votes;
}

std::vector<Votes> SingleProcessVoteChannel::read(std::int64_t sequence) {
  if (sequence != sequence_) {
    throw MisuseError(
        format("votes of reduction {} were read, but the last ones published are for reduction {}: publish before each "
               "reduction and read after it",
               sequence, sequence_));
  }
  return {votes_};
}

}  // namespace levin
