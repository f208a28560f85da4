#pragma once

#include <set>
#include <string>

#include "levin/callbacks/live/live_screen.h"
#include "levin/core/logger.h"
#include "levin/core/trainer.h"

namespace levin {

/// What of a run the live terminal shows beside `line` and curves: ranks, and what ModelCheckpoint does. Never communicates.
LiveState live_figures(const Trainer& trainer, ProgressLine line);

/// Tells which logged values make a point of a curve, and when. Of a key that is logged on_step and on_epoch steps do.
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
