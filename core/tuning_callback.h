#pragma once

#include "levin/core/base/fwd.h"
#include "levin/core/callback.h"
#include "levin/core/trial_runner.h"

namespace levin {

/// A callback that runs trials before a fit, unless the fit resumes or fast_dev_run is set.
class LEVIN_API TuningCallback : public Callback {
 public:
  ~TuningCallback() override;
  /// Called: when the module has its weights, before optimizers are made. Ranks: all.
  virtual void tune(Trainer& trainer, TrialRunner& trials) = 0;
};

}  // namespace levin
