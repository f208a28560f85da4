#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/protocol/control_group.h"
#include "levin/core/protocol/votes.h"

namespace levin {

/// What a rank has published for a reduction, as it travels.
struct LEVIN_API PublishedVotes {
  std::int64_t sequence = -1;
  std::uint64_t votes = 0;  ///< packed
};
/// The votes by rank. Throws DesyncError when one of them is for another reduction than `sequence`, in which `own_rank` is.
LEVIN_API std::vector<Votes> unpack_votes(std::span<const PublishedVotes> by_rank, std::int64_t sequence, int own_rank);

/// Carries votes between boundaries without a collective of their own: each rank publishes before a gradient reduction and
/// reads after it. Since a reduction ends on a rank only after it has started on every rank, all ranks read the same votes for
/// the same reduction. One word of shared memory a rank on one host; an element in a bucket between hosts.
class LEVIN_API VoteChannel {
 public:
  virtual ~VoteChannel();
  /// Before reduction number `sequence` (0, 1, 2, … counted alike on every rank) starts on this rank.
  virtual void publish(std::int64_t sequence, const Votes& votes) = 0;
  /// After reduction number `sequence` has ended on this rank: what each rank published for it, by rank.
  virtual std::vector<Votes> read(std::int64_t sequence) = 0;
};

/// Votes that travel by themselves: reading is a meeting over the control group. Right for every manner of training; a strategy
/// whose reductions are a meeting already saves it this one.
class LEVIN_API GatheredVoteChannel final : public VoteChannel {
 public:
  /// `group` outlives the board.
  explicit GatheredVoteChannel(ControlGroup& group) : group_(group) {}
  void publish(std::int64_t sequence, const Votes& votes) override;
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  ControlGroup& group_;
  PublishedVotes mine_;
};

/// The channel of a group of one. Reading a sequence that was not the last one published is a MisuseError.
class LEVIN_API SingleProcessVoteChannel final : public VoteChannel {
 public:
  void publish(std::int64_t sequence, const Votes& votes) override;
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  std::int64_t sequence_ = -1;
  Votes votes_;
};

}  // namespace levin
