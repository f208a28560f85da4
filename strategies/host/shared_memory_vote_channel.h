#pragma once

#include <memory>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/host/shared_memory_status_board.h"

namespace levin {

/// Votes of ranks on one host: one word a rank and parity of the sequence. Two are enough: a rank that publishes for n + 2 has
/// ended reduction n + 1, which every rank has begun after it read the votes of n.
class SharedMemoryVoteChannel final : public VoteChannel {
 public:
  SharedMemoryVoteChannel(std::shared_ptr<RunSegment> segment, std::shared_ptr<SharedMemoryStatusBoard> board)
      : segment_(std::move(segment)), board_(std::move(board)) {}
  void publish(std::int64_t sequence, const Votes& votes) override;
  /// Throws DesyncError when a rank has not published for this sequence: its reductions are not those of this rank.
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  std::shared_ptr<RunSegment> segment_;
  std::shared_ptr<SharedMemoryStatusBoard> board_;
};

}  // namespace levin
