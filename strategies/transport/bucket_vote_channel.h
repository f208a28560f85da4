#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "levin/core/protocol/control_group.h"
#include "levin/strategies/failure/status_board.h"

namespace levin {

/// Votes between hosts: they travel as a few more elements of the first bucket of gradients, so they cost no message.
/// Each rank has 16 elements, the bytes of its sequence and of its votes, and contributes zeros to those of the others: the sum
/// that the reduction makes holds every rank's, exactly, in any floating-point type (no byte needs more than 8 bits).
class BucketVoteChannel final : public VoteChannel {
 public:
  explicit BucketVoteChannel(std::shared_ptr<StatusBoard> board) : board_(std::move(board)) {}

  void publish(std::int64_t sequence, const Votes& votes) override;
  /// Throws DesyncError when a rank was in another reduction.
  std::vector<Votes> read(std::int64_t sequence) override;

  /// What this rank adds to its bucket: elements like those of `bucket`.
  at::Tensor elements(const at::Tensor& bucket) const;
  /// The sum of all ranks' elements. Called by the thread that ends a reduction.
  void take(const at::Tensor& sum);
  /// In place of a reduction, when there is nothing to reduce. Ranks: all. One collective.
  void exchange(ControlGroup& group);

 private:
  std::shared_ptr<StatusBoard> board_;
  PublishedVotes mine_;
  mutable std::mutex mutex_;
  std::vector<PublishedVotes> all_;
};

}  // namespace levin
