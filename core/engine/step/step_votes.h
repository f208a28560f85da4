#pragma once

#include <cstdint>

#include "levin/core/engine/diagnostics/nan_guard.h"
#include "levin/core/engine/parts/boundaries.h"
#include "levin/core/engine/step/trained_parameters.h"
#include "levin/core/protocol/control_group.h"

namespace levin {

/// This rank's part in the gradient reductions of training: votes go out before each one and come back after it, so that
/// agreeing to stop costs no collective of its own. A rank whose parameters have changed says so in them.
class StepVotes {
 public:
  StepVotes(VoteChannel& board, Boundaries& boundaries, TrainedParameters& parameters, NanGuard& nan)
      : board_(board), boundaries_(boundaries), parameters_(parameters), nan_(nan) {}

  /// Weight of this rank in the gradients since the last optimizer step, the batch in work included.
  void set_gradient_weight(std::int32_t weight) { gradient_weight_ = weight; }
  std::int32_t gradient_weight() const { return gradient_weight_; }

  /// Before a backward pass that reduces gradients.
  void publish();
  /// After it, when gradients are reduced. All ranks get the same. Where the parameters of some rank have changed, all ranks
  /// agree on them here, before the optimizer steps.
  void collect();
  /// Starts a training batch: nothing is collected yet.
  void begin_batch() { collected_any_ = false; }
  /// True when gradients were reduced in this batch; agreed() is then what all ranks know.
  bool reduced() const { return collected_any_; }
  const Votes& agreed() const { return collected_; }

 private:
  VoteChannel& board_;
  Boundaries& boundaries_;
  TrainedParameters& parameters_;
  NanGuard& nan_;
  std::int64_t sequence_ = 0;
  std::int32_t gradient_weight_ = 0;
  bool collected_any_ = false;
  Votes collected_;
};

}  // namespace levin
