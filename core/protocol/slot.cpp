#include "levin/core/protocol/slot.h"

#include <cmath>
#include <limits>

namespace levin::detail {

double identity(Reduce reduce) {
  if (reduce == Reduce::kMin) return std::numeric_limits<double>::infinity();
  if (reduce == Reduce::kMax) return -std::numeric_limits<double>::infinity();
  return 0;
}

double combine(Reduce reduce, double left, double right) {
  if (reduce == Reduce::kMean || reduce == Reduce::kSum) return left + right;
  if (std::isnan(left) || std::isnan(right)) return std::numeric_limits<double>::quiet_NaN();
  return (reduce == Reduce::kMin) == (right < left) ? right : left;
}

void Slot::accumulate(Reduce reduce, double new_value, double new_weight) {
  if (!present()) *this = {identity(reduce), 0};
  if (reduce != Reduce::kMean) {
    value = combine(reduce, value, new_value);
    weight += 1;
    return;
  }
  // Not computed for weight 0: 0 * NaN would spoil a mean to which this value does not belong.
  if (new_weight > 0) value += new_value * new_weight;
  weight += new_weight;
}

double epoch_value(const Slot& slot, Reduce reduce) {
  if (reduce != Reduce::kMean) return slot.value;
  return slot.weight > 0 ? slot.value / slot.weight : std::numeric_limits<double>::quiet_NaN();
}

double reduce_epoch(std::span<const Slot> by_rank, Reduce reduce) {
  Slot total;
  for (const Slot& slot : by_rank) {
    if (!slot.present()) continue;
    if (!total.present()) {
      total = slot;
    } else {
      total.value = combine(reduce, total.value, slot.value);
      total.weight += slot.weight;
    }
  }
  return epoch_value(total, reduce);
}

double reduce_step(std::span<const Slot> by_rank, Reduce reduce) {
  Slot total;
  int present = 0;
  double only = 0;
  for (const Slot& slot : by_rank) {
    if (!slot.present()) continue;
    total.accumulate(reduce, slot.value, slot.weight);
    only = slot.value;
    ++present;
  }
  // v * w / w need not be v again.
  return present == 1 ? only : epoch_value(total, reduce);
}

}  // namespace levin::detail
