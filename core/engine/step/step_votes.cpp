#include "levin/core/engine/step/step_votes.h"

namespace levin {

void StepVotes::publish() {
  Votes mine = boundaries_.votes();
  mine.gradient_weight = gradient_weight_;
  mine.parameters_changed = parameters_.changed();
  mine.loss_is_bad = nan_.votes_against();
  board_.publish(sequence_, mine);
}

void StepVotes::collect() {
  const std::vector<Votes> by_rank = board_.read(sequence_);
  collected_ = boundaries_.adopt(by_rank);
  nan_.adopt(by_rank);
  collected_any_ = true;
  ++sequence_;
  // Every rank reaches this because the votes of all ranks, which each of them has, say so.
  if (collected_.parameters_changed) parameters_.agree(/*after_reduction=*/true);
}

}  // namespace levin
