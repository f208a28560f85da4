#include "levin/core/loops/step_votes.h"

namespace levin {

void StepVotes::publish() {
  Votes mine = boundaries_.votes();
  mine.gradient_weight = gradient_weight_;
  board_.publish(sequence_, mine);
}

void StepVotes::collect() {
  collected_ = boundaries_.adopt(board_.read(sequence_));
  collected_any_ = true;
  ++sequence_;
}

}  // namespace levin
