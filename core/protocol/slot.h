#pragma once

#include <span>

#include "levin/core/protocol/log_options.h"

namespace levin::detail {

/// One value with its weight: how metrics are kept and how they travel. A negative weight says "not logged".
/// Of a step it holds the value itself. Of an epoch it holds, for a mean, the sum of value times weight; else the reduced value
/// so far, with the number of values as weight.
struct Slot {
  double value = 0;
  double weight = -1;

  bool present() const { return weight >= 0; }
  /// Takes one more value into an epoch's slot. A weight of 0 counts as logged and adds nothing to a mean.
  void accumulate(Reduce reduce, double new_value, double new_weight);
};

/// What a total starts with: 0, or the infinity that every value replaces.
double identity(Reduce reduce);
/// Two totals as one. NaN wins in min and max: on whichever rank it arose, it must show.
double combine(Reduce reduce, double left, double right);

/// One rank's own value of an epoch. NaN for a mean whose weights sum to 0. The slot is present.
double epoch_value(const Slot& slot, Reduce reduce);
/// One value from those slots, one a rank, that are present; at least one is. Added up in the order of ranks, so that every
/// rank gets the same bits.
double reduce_epoch(std::span<const Slot> by_rank, Reduce reduce);
double reduce_step(std::span<const Slot> by_rank, Reduce reduce);

}  // namespace levin::detail
