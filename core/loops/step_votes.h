#pragma once

#include <cstdint>
#include <vector>

#include "levin/core/loops/runtime.h"

namespace levin {

/// This rank's part in the gradient reductions of training: votes go out before each one and come back after it, so that
/// agreeing to stop costs no collective of its own.
class StepVotes {
 public:
  explicit StepVotes(Trainer::Runtime& runtime) : runtime_(runtime) {}

  /// Batches of this rank in the gradients since the last optimizer step, the one in work included.
  void set_micro_batches(std::int32_t count) { micro_batches_ = count; }
  std::int32_t micro_batches() const { return micro_batches_; }

  /// Before a backward pass that reduces gradients.
  void publish();
  /// After it. All ranks get the same.
  void collect();
  /// Starts a training batch: nothing is collected yet.
  void begin_batch() { collected_any_ = false; }
  /// True when gradients were reduced in this batch; agreed() is then what all ranks know.
  bool reduced() const { return collected_any_; }
  const Votes& agreed() const { return collected_; }

 private:
  Trainer::Runtime& runtime_;
  std::int64_t sequence_ = 0;
  std::int32_t micro_batches_ = 0;
  bool collected_any_ = false;
  Votes collected_;
};

}  // namespace levin
