#include "levin/core/loops/step_votes.h"

namespace levin {

void StepVotes::publish() {
  Votes mine = boundaries_.votes();
  mine.gradient_weight = gradient_weight_;
  mine.parameters_changed = parameters_.changed();
  board_.publish(sequence_, mine);
}

void StepVotes::collect() {
  collected_ = boundaries_.adopt(board_.read(sequence_));
  collected_any_ = true;
  ++sequence_;
  // Every rank reaches this because the votes of all ranks, which each of them has, say so.
  if (collected_.parameters_changed) parameters_.agree(/*after_reduction=*/true);
}

}  // namespace levin
