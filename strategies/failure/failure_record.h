#pragma once

#include <string>

#include "levin/core/base/hook.h"

namespace levin {

/// Why a run failed: which rank, where it was, and its error.
struct FailureRecord {
  int rank = 0;
  Whereabouts where;
  std::string error;
  /// Starting again would lead there again: the configuration or the program is wrong.
  bool is_final = false;
  /// Its process has ended, and others have noticed: it does not say anything itself.
  bool is_lost = false;

  /// "rank 1 failed in training_step (train, epoch 0, step 3)"
  std::string place() const;
  /// The same with the error: "rank 1 failed in training_step (train, epoch 0, step 3): <error>"
  std::string str() const;
};

/// Where a rank is that has not come to its first hook yet.
inline constexpr Whereabouts kBeforeFirstHook{Stage::kTrain, Hook::kNone, -1, -1};

/// What a rank says that ends because of another one's failure, in one line.
std::string consequence(int rank, const Whereabouts& where, const FailureRecord& cause);

}  // namespace levin
