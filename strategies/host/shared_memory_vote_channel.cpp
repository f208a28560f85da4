#include "levin/strategies/host/shared_memory_vote_channel.h"

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"

namespace levin {

void SharedMemoryVoteChannel::publish(std::int64_t sequence, const Votes& votes) {
  RankSlot& slot = segment_->slot(board_->rank());
  const std::size_t parity = static_cast<std::size_t>(sequence) % 2;
  slot.votes[parity].store(pack(votes), std::memory_order_relaxed);
  slot.vote_sequence[parity].store(sequence + 1, std::memory_order_release);
}

std::vector<Votes> SharedMemoryVoteChannel::read(std::int64_t sequence) {
  board_->end_reduction();
  const std::size_t parity = static_cast<std::size_t>(sequence) % 2;
  std::vector<Votes> votes;
  for (int rank = 0; rank < segment_->ranks(); ++rank) {
    const RankSlot& slot = segment_->slot(rank);
    const std::int64_t published = slot.vote_sequence[parity].load(std::memory_order_acquire) - 1;
    if (published != sequence) {
      throw DesyncError(
          format("rank {} ended gradient reduction {}, but rank {} last published votes for reduction {}: ranks do not call "
                 "backward in the same order",
                 board_->rank(), sequence, rank, published));
    }
    votes.push_back(unpack_votes(slot.votes[parity].load(std::memory_order_relaxed)));
  }
  return votes;
}

}  // namespace levin
