#pragma once

#include "distributed/one_weight.h"
#include "distributed/rank_program.h"
#include "distributed/rank_report.h"

namespace levin::test {

inline TrainerOptions options_for(const Settings& settings) {
  TrainerOptions options = rank_options(settings.number("ranks"), settings.text("folder"));
  options.strategy = settings.text("strategy", "auto");
  return options;
}

inline Report report_run(const Settings& settings, const Trainer& trainer, const OneWeight& module) {
  Report report(settings.text("folder"), trainer.rank());
  report.add("weight", module.weight());
  report.add("global_step", trainer.global_step());
  report.add("epoch", trainer.current_epoch());
  report.add("steps", module.steps);
  report.add_all("metric", trainer.callback_metrics());
  return report;
}

}  // namespace levin::test
