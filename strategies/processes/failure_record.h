#pragma once

#include <string>

#include "levin/core/protocol/whereabouts.h"

namespace levin {

/// Why a run failed: which rank, where it was, and its error.
struct FailureRecord {
  int rank = 0;
  Whereabouts where;
  std::string error;

  /// "rank 1 failed in training_step (train, epoch 0, step 3): <error>"
  std::string str() const;
};

/// "training_step (train, epoch 0, step 3)"; "before the first hook" when there was none.
std::string describe(const Whereabouts& where);

}  // namespace levin
