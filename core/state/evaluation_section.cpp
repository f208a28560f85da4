#include "levin/core/state/evaluation_section.h"

#include "levin/core/state/trainer_state.h"

namespace levin {

std::shared_ptr<void> EvaluationSection::hold(TrainerState& run) {
  Progress& progress = run.progress;
  return held([&progress, totals = progress.evaluation_totals, batches = progress.num_evaluation_batches] {
    progress.evaluation_totals = totals;
    progress.num_evaluation_batches = batches;
  });
}

void EvaluationSection::begin(TrainerState& run, Place) { steps_ = run.progress.evaluation_steps; }

void EvaluationSection::save_own(TrainerState&, RankState& state) {
  state.manifest["evaluation_steps"] = Value::List(steps_.begin(), steps_.end());
}

void EvaluationSection::load_own(TrainerState& run, const Checkpoint&, int rank, const Value& values) {
  if (rank != run.strategy().rank()) return;
  loaded_.clear();
  for (const Value& steps : values.at("evaluation_steps").as_list()) loaded_.push_back(steps.as_int());
}

void EvaluationSection::restore(TrainerState& run, Moment moment) {
  if (moment == Moment::kPlace) run.progress.evaluation_steps = loaded_;
}

}  // namespace levin
