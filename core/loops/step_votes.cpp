#include "levin/core/loops/step_votes.h"

#include "levin/core/protocol/vote_board.h"

namespace levin {

void StepVotes::publish() {
  Votes mine = runtime_.votes();
  mine.gradient_weight = gradient_weight_;
  runtime_.strategy->vote_board().publish(sequence_, mine);
}

void StepVotes::collect() {
  collected_ = runtime_.adopt(runtime_.strategy->vote_board().read(sequence_));
  collected_any_ = true;
  ++sequence_;
}

}  // namespace levin
