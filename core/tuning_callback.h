#pragma once

#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/trial_runner.h"

namespace levin {

/// A callback that tries something out before a fit begins: not where one resumes, and not with fast_dev_run.
class LEVIN_API TuningCallback : public Callback {
 public:
  ~TuningCallback() override;
  /// Called: when the module has its weights, before optimizers are made. Ranks: all.
  virtual void tune(Trainer& trainer, TrialRunner& trials) = 0;
};

}  // namespace levin
