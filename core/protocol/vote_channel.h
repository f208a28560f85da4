#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "levin/core/export.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

/// What one rank asks of all, or tells them, at a step or a boundary. Merged, a vote of any rank is everyone's.
struct LEVIN_API Votes {
  bool stop = false;                ///< should_stop
  bool end_epoch = false;           ///< skip the rest of this epoch
  bool has_next = true;             ///< training data: this rank has a batch after the one it works on; merged: any rank has
  std::int32_t signal = 0;          ///< number of a signal received (below 128), 0 for none; merged: the lowest rank's
  bool parameters_changed = false;  ///< the module or its optimizers have others than the ranks agreed on
  bool loss_is_bad = false;         ///< NaN or infinite, of a batch that is part of the gradients now reduced
  /// Of this rank's part in the gradients now reduced: its samples, or its batches where sizes are not known. Merged: the sum.
  std::int32_t gradient_weight = 0;
  /// Batches whose gradients make one step on this rank, at most 65535: ranks compare them. Merged: the lowest rank's.
  std::int32_t accumulate_grad_batches = 0;
  friend bool operator==(const Votes&, const Votes&) = default;
};

/// Merges by-rank votes into one, in the way that Votes documents. No votes at all: as Votes{} but without has_next.
LEVIN_API Votes merge(const std::vector<Votes>& votes);

/// Votes in one word, for shared memory and frames. The top bit is always set, so that a word is never 0.
LEVIN_API std::uint64_t pack(const Votes& votes);
LEVIN_API Votes unpack_votes(std::uint64_t word);

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
  /// `group` outlives the channel.
  explicit GatheredVoteChannel(ControlGroup& group) : group_(group) {}
  void publish(std::int64_t sequence, const Votes& votes) override;
  std::vector<Votes> read(std::int64_t sequence) override;

 private:
  ControlGroup& group_;
  PublishedVotes mine_;
};

}  // namespace levin
