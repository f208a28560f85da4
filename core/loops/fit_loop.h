#pragma once

#include <cstdint>

#include "levin/core/loops/epoch_plan.h"
#include "levin/core/loops/fit_validation.h"
#include "levin/core/loops/optimization.h"
#include "levin/core/loops/scheduler_runner.h"
#include "levin/core/loops/step_votes.h"
#include "levin/core/loops/training_data.h"
#include "levin/core/resume/resume_point.h"
#include "levin/core/rows/metric_rows.h"
#include "levin/core/run/hook_runner.h"

namespace levin {

/// Training: epochs, batches, validation in between, and the decisions when to stop. Every decision is made from what all ranks
/// know, so that all ranks make the same one. An epoch is a row of turns; in each turn every rank that still has a batch works
/// on one, and the others take part in the reduction without. LoopPosition says at any time what comes next.
class FitLoop {
 public:
  FitLoop(Trainer::Runtime& runtime, const Precision& precision, DataSource& source);
  ~FitLoop();
  FitLoop(const FitLoop&) = delete;
  FitLoop& operator=(const FitLoop&) = delete;

  void run(const ResumePoint& resume);

 private:
  void reload_if_due();
  void agree_on_epoch();
  void warn_of_long_interval();
  void announce() const;

  void train_epochs(ResumePoint resume);
  /// True when training is over; state_.end_reason then says why.
  bool done();
  bool can_stop_early() const;
  bool stops_here() const;
  void check_signal() const;

  /// A place that begins anew begins: what changes in it is remembered as it is now.
  void begin(Place place);
  /// The hooks before a run comes to where it goes on set up what is in memory; what they log and draw does not count.
  void take_over(const ResumePoint& resume);
  void take_over_gradients(const ResumePoint& resume);

  void run_epoch(const ResumePoint& resume);
  void start_epoch(const ResumePoint& resume);
  bool any_rank_has_batch();
  /// Turns until the epoch ends or training stops.
  void run_turns();
  /// The turn was the epoch's last, or training stops here: the epoch's end is due.
  bool is_over(const Turn& turn);
  void at_epoch_end(bool completed, int hooks_done);
  Turn run_turn(std::int64_t iteration);
  void plan_turn(Turn& turn);
  StepOutput optimize(const Turn& turn, const Batch* batch);
  StepOutput forward_only(const Turn& turn, const Batch* batch);
  void learn_from_votes(Turn& turn);
  /// Each turn's gradients travel over ranks, and votes with them. Otherwise ranks meet after each batch.
  bool reduces_gradients() const;
  void agree_after_manual_step(Turn& turn, std::int64_t steps_before);
  /// On one process, a wish from on_train_batch_end: there is nobody to agree with.
  void obey_wish_to_skip(Turn& turn);
  void end_batch_hooks(const Turn& turn, const StepOutput& output, const Batch* batch);
  /// Whoever saves checkpoints after a step meets the other ranks there, so a rank without a batch comes too, and so does a
  /// run that was interrupted before they had their turn.
  void end_batch_hooks_without_batch(HookCounter& counter, const Turn& turn);
  /// What follows a batch, from a place on: its row, a validation that is due, schedulers.
  void finish_turn(const Turn& turn, Place from, int hooks_done);
  void write_step_row(const Turn& turn);
  void end_epoch(bool completed, int hooks_done);
  /// Callbacks that save state, after all else of the epoch, so that what they save is of an epoch that is done.
  void save_epoch(int hooks_done);

  Trainer::Runtime& runtime_;
  LoopState& state_;
  const Precision& precision_;
  HookRunner hooks_;
  StepVotes votes_;
  AutomaticOptimization automatic_;
  SchedulerRunner schedulers_;
  MetricRows rows_;
  TrainingData data_;
  FitValidation validation_;
  EpochPlan plan_;
  std::int64_t loaded_in_epoch_ = 0;
};

}  // namespace levin
