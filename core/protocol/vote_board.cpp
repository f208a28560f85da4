#include "levin/core/protocol/vote_board.h"

#include <string>

#include "levin/core/error.h"

namespace levin {

VoteBoard::~VoteBoard() = default;

std::vector<Votes> votes_for_reduction(std::int64_t sequence, std::span<const VoteWords> by_rank, int rank) {
  std::vector<Votes> votes;
  for (const VoteWords& words : by_rank) {
    if (words.sequence != sequence) {
      throw DesyncError("rank " + std::to_string(votes.size()) + " is in gradient reduction " + std::to_string(words.sequence) +
                        ", rank " + std::to_string(rank) + " in " + std::to_string(sequence) +
                        ": ranks do not call backward in the same order");
    }
    votes.push_back(unpack_votes(words.votes));
  }
  return votes;
}

void GatheredVoteBoard::publish(std::int64_t sequence, const Votes& votes) { mine_ = {sequence, pack(votes)}; }

std::vector<Votes> GatheredVoteBoard::read(std::int64_t sequence) {
  std::vector<VoteWords> all(static_cast<std::size_t>(group_.size()));
  group_.all_gather(std::as_bytes(std::span(&mine_, 1)), std::as_writable_bytes(std::span(all)), "the votes of a step");
  return votes_for_reduction(sequence, all, group_.rank());
}

void SingleProcessVoteBoard::publish(std::int64_t sequence, const Votes& votes) {
  sequence_ = sequence;
  votes_ = votes;
}

std::vector<Votes> SingleProcessVoteBoard::read(std::int64_t sequence) {
  if (sequence != sequence_) {
    throw MisuseError("votes of reduction " + std::to_string(sequence) +
                      " were read, but the last ones published are for reduction " + std::to_string(sequence_) +
                      ": publish before each reduction and read after it");
  }
  return {votes_};
}

}  // namespace levin
