#include "levin/core/protocol/vote_board.h"

#include <string>

#include "levin/core/base/format.h"
#include "levin/core/error.h"

namespace levin {

VoteBoard::~VoteBoard() = default;

void SingleProcessVoteBoard::publish(std::int64_t sequence, const Votes& votes) {
  sequence_ = sequence;
  votes_ = votes;
}

std::vector<Votes> SingleProcessVoteBoard::read(std::int64_t sequence) {
  if (sequence != sequence_) {
    throw MisuseError(
        format("votes of reduction {} were read, but the last ones published are for reduction {}: publish before each "
               "reduction and read after it",
               sequence, sequence_));
  }
  return {votes_};
}

}  // namespace levin
