#pragma once

#include <set>
#include <string>

#include "levin/callbacks/live/live_screen.h"
#include "levin/core/logger.h"
#include "levin/core/trainer.h"

namespace levin {

/// The figures of the live terminal besides `line` and curves: ranks, and what ModelCheckpoint does. Never communicates.
LiveState live_figures(const Trainer& trainer, ProgressLine line);

/// Selects the logged values that become points of a curve, and says when. Of a key that is logged on_step and on_epoch, the
/// values of steps do.
class CurveValues {
 public:
  /// Those of the newest step, with those of the progress bar first.
  std::vector<std::pair<std::string, double>> of_step(const Trainer& trainer) const;
  /// Those of a row that ends an epoch or a validation; of another one none.
  std::vector<std::pair<std::string, double>> of_row(const Trainer& trainer, const MetricRow& row);

 private:
  std::set<std::string> of_epochs_;
};

}  // namespace levin
