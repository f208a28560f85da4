#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/protocol/votes.h"

namespace levin {

/// Carries votes between boundaries without a collective of their own: each rank publishes before a gradient reduction and
/// reads after it. Since a reduction ends on a rank only after it has started on every rank, all ranks read the same votes for
/// the same reduction. One word of shared memory a rank on one host; an element in a bucket between hosts.
class LEVIN_API VoteBoard {
 public:
  virtual ~VoteBoard();
  /// Before reduction number `sequence` (0, 1, 2, … counted alike on every rank) starts on this rank.
  virtual void publish(std::int64_t sequence, const Votes& votes) = 0;
  /// After reduction number `sequence` has ended on this rank: what each rank published for it, by rank.
  virtual std::vector<Votes> read(std::int64_t sequence) = 0;
};

/// The board of a group of one. Reading a sequence that was not the last one published is a MisuseError.
class LEVIN_API SingleProcessVoteBoard final : public VoteBoard {
 public:
  void publish(std::int64_t sequence, const Votes& votes) override;
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  std::int64_t sequence_ = -1;
  Votes votes_;
};

}  // namespace levin
