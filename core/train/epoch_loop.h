#pragma once

#include "levin/core/train/commanded_work.h"
#include "levin/core/train/evaluation_loop.h"

namespace levin {

/// A training epoch: iterations, in each of which every rank that still has a batch works on one and the others only join the
/// reduction; validation in between; and the hooks, rows and schedulers at the end.
class EpochLoop {
 public:
  /// `plan`: of the next epoch, as agreed on by FitLoop.
  EpochLoop(TrainerState& run, const PrecisionPolicy& precision, TrainingData& data, FitValidation& validation,
            const EpochPlan& plan);
  ~EpochLoop() { run_.step_votes = nullptr; }
  EpochLoop(const EpochLoop&) = delete;
  EpochLoop& operator=(const EpochLoop&) = delete;

  /// Begins the epoch at its start, or at the point at which a run resumes. Ranks: all.
  void begin(const ResumePoint& resume);
  /// Some rank has work left in the epoch: iterate(), until this is false; then end().
  bool continues() const { return continues_; }
  /// Works on the next batch; this rank may have none. Gives what training_step returned. Ranks: all.
  StepOutput iterate();
  /// The data has ended on all ranks after the last batch, which was not known to be the last. Ranks: all.
  void finish();
  /// Ends the epoch: its hooks, rows and schedulers. Ranks: all.
  void end();
  /// Why the epoch of the plan does not run; unset when it does.
  std::optional<std::string> end_reason() const { return stop_.reason(plan_); }
  /// Throws Interrupted when the ranks agreed to end for a signal.
  void throw_if_signalled() const {
    if (run_.wishes.signal() != 0) run_.wishes.throw_if_signalled(progress_.where());
  }
  /// The last epoch had no batch on any rank that takes part.
  bool was_empty() const { return was_empty_; }
  /// Reports the results of checkpoints that are written in the background.
  void check_files() const;

 private:
  void start(const ResumePoint& resume);
  /// Ranks: all. Agrees on parameters that hooks have changed since the last step, and checks that ranks read different data.
  void agree_on_start(bool begins);
  /// Of batches that a caller gives, any number may have any size: the largest of the first ones counts as full.
  void weigh_by_samples(const std::vector<std::int64_t>& samples_of_ranks);
  /// Resumes after a batch: runs the validation that is due, and schedulers. True: the epoch's end is due.
  bool resume_behind_batch(const ResumePoint& resume);
  /// Resumes where training has stopped, or a batch has begun. True: what had stopped it, or would have, ends it here.
  bool resume_before_batch(const ResumePoint& resume);
  /// Ranks: all. True: an iteration follows.
  bool ranks_have_next();
  /// Some rank has a batch; under manual optimization, all have one.
  bool have_next(const BoundaryOutcome& outcome) const;
  /// The iteration was the epoch's last, or training stops here: the epoch's end is due.
  bool is_over(const Iteration& iteration);
  /// The same at the boundary between two batches, where requested checkpoints are written and training pauses.
  bool is_over_at_boundary(Iteration& iteration);
  /// Once: the ranks agreed to stop, but min_epochs or min_steps delays it.
  void warn_of_delayed_stop() const;
  /// Training ends with an iteration that is not the epoch's last.
  bool stops_inside(const Iteration& iteration) const {
    return !iteration.is_last && !iteration.end_epoch && stop_.ends_epoch();
  }
  void reach_end(bool completed);
  /// What follows does not count for a run that resumes.
  void stop_inside(const Iteration& iteration);
  /// Writes the row and runs the validation that were postponed when ranks stopped.
  void finish_stop();

  Iteration run_iteration(std::int64_t index);
  void plan_iteration(Iteration& iteration);
  StepOutput optimize(const Iteration& iteration, const Batch* batch);
  /// The merged votes of all ranks, if they came with the step.
  Votes agree(Iteration& iteration, std::int64_t steps_before, std::int64_t samples);
  Votes agree_after_manual_step(Iteration& iteration, std::int64_t steps_before, std::int64_t samples);
  void step_done(const Iteration& iteration);
  /// On one process, a wish from on_train_batch_end: no agreement is needed.
  void obey_wish_to_skip(Iteration& iteration);
  /// `batch` null: this rank has none. It still runs callbacks that save checkpoints after a step, as all ranks meet there.
  void end_batch_hooks(const Iteration& iteration, const StepOutput& output, const Batch* batch);
  /// The work after an iteration's validation.
  void finish_iteration(Iteration& iteration);
  /// By log_every_n_steps; `steps`: Progress::logging_step including the step of the row.
  bool row_is_due(std::int64_t steps) const;
  void write_step_row(Iteration& iteration);
  /// Ranks: all.
  void meet_for_row(std::int64_t step);
  /// Ranks: all, with the outcome of their meeting.
  void warn_of_straggler(const BoundaryOutcome& outcome, std::int64_t step);

  void warn_of_epoch_without_training();

  TrainerState& run_;
  Progress& progress_;
  LoopPosition& position_;
  HookRunner& hooks_;
  const PrecisionPolicy& precision_;
  const bool alone_;  ///< the only rank: no agreement is needed
  StopConditions stop_;
  CommandedWork commanded_;
  StepVotes votes_;
  TrainingData& data_;
  FitValidation& validation_;
  const EpochPlan& plan_;
  AutomaticOptimization automatic_;
  SchedulerRunner schedulers_;
  MetricRows rows_;
  StepOutput output_;  ///< of the iteration under way
  bool was_empty_ = false;
  bool continues_ = false;
  std::optional<ProfiledAction> profiled_;
  bool has_batch_ = true;        ///< where the epoch begins or resumes: ranks have one, or the only rank has
  std::int64_t window_ = 1;      ///< accumulate_grad_batches that iterations are planned with
  std::int64_t first_step_ = 0;  ///< global_step when the epoch began; -1: it was resumed
};

}  // namespace levin
