#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/export.h"

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
  friend bool operator==(const Votes&, const Votes&) = default;
};

/// Merges by-rank votes into one, in the way that Votes documents. No votes at all: as Votes{} but without has_next.
LEVIN_API Votes merge(const std::vector<Votes>& votes);

/// Votes in one word, for shared memory and frames. The top bit is always set, so that a word is never 0.
LEVIN_API std::uint64_t pack(const Votes& votes);
LEVIN_API Votes unpack_votes(std::uint64_t word);

}  // namespace levin
