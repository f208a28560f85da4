#pragma once

#include "levin/core/train/commanded_work.h"
#include "levin/core/train/evaluation_loop.h"

namespace levin {

/// A training epoch: iterations, in each of which every rank that still has a batch works on one and the others take part in
/// the reduction without; validation in between; and the hooks, rows and schedulers at the end.
class EpochLoop {
 public:
  /// `plan`: of the epoch that runs next, as FitLoop has agreed on it.
  EpochLoop(TrainerState& run, const PrecisionPolicy& precision, TrainingData& data, FitValidation& validation,
            const EpochPlan& plan);
  ~EpochLoop() { run_.step_votes = nullptr; }
  EpochLoop(const EpochLoop&) = delete;
  EpochLoop& operator=(const EpochLoop&) = delete;

  /// From its start, or from where a run that resumes goes on.
  void run(const ResumePoint& resume);
  /// Why the epoch of the plan does not run; unset when it does.
  std::optional<std::string> end_reason() const { return stop_.reason(plan_); }
  /// Throws Interrupted when the ranks agreed to end for a signal.
  void throw_if_signalled() const {
    if (run_.wishes.signal() != 0) run_.wishes.throw_if_signalled(progress_.where());
  }
  /// The epoch that ran last had no batch on any rank that takes part, from its beginning on.
  bool was_empty() const { return was_empty_; }
  /// Tells what has become of checkpoints that are written in the background.
  void check_files() const;

 private:
  void start(const ResumePoint& resume);
  /// Ranks: all. Changes of parameters by hooks since the last step are known to all from here on, and ranks make sure that
  /// they do not all read the same.
  void agree_on_start();
  /// Resumes with what follows a batch: the validation that is due, and schedulers. True: the epoch's end is due.
  bool resume_behind_batch(const ResumePoint& resume);
  /// Goes on where training has stopped, or a batch has begun. True: what has ended it, or would have, ends it here.
  bool resume_before_batch(const ResumePoint& resume);
  /// Ranks: all. An iteration follows.
  bool ranks_have_next();
  /// Some rank has a batch, or, where a step of the user's own needs them, all have one.
  bool have_next(const BoundaryOutcome& outcome) const;
  void run_iterations();
  /// The iteration was the epoch's last, or training stops here: the epoch's end is due.
  bool is_over(const Iteration& iteration);
  /// The same at the boundary between two batches, where checkpoints that were asked for are written and a pause is.
  bool is_over_at_boundary(Iteration& iteration);
  /// Once: the ranks agreed to stop, and min_epochs or min_steps does not let them.
  void tell_of_stop_that_waits() const;
  /// Training ends with an iteration that is not the epoch's last.
  bool stops_inside(const Iteration& iteration) const {
    return !iteration.is_last && !iteration.end_epoch && stop_.ends_epoch();
  }
  void reach_end(bool completed);
  /// From here on nothing counts for a run that goes on.
  void stop_inside(const Iteration& iteration);
  /// The row and the validation that were left when ranks stopped.
  void finish_stop();

  Iteration run_iteration(std::int64_t index);
  void plan_iteration(Iteration& iteration);
  StepOutput optimize(const Iteration& iteration, const Batch* batch);
  /// Gives the votes of all ranks, merged, where they came with the step.
  Votes agree(Iteration& iteration, std::int64_t steps_before, std::int64_t samples);
  Votes agree_after_manual_step(Iteration& iteration, std::int64_t steps_before, std::int64_t samples);
  void step_done(const Iteration& iteration);
  /// On one process, a wish from on_train_batch_end: there is nobody to agree with.
  void obey_wish_to_skip(Iteration& iteration);
  /// `batch` null: whoever saves checkpoints after a step meets the other ranks there, so a rank without a batch comes too.
  void end_batch_hooks(const Iteration& iteration, const StepOutput& output, const Batch* batch);
  /// What follows an iteration's validation.
  void finish_iteration(Iteration& iteration);
  /// By log_every_n_steps; `steps`: Progress::logging_step with the step that a row is of.
  bool row_is_due(std::int64_t steps) const;
  void write_step_row(Iteration& iteration);
  /// Ranks: all.
  void meet_for_row(std::int64_t step);
  /// Ranks: all, with what they told one another.
  void warn_of_straggler(const BoundaryOutcome& outcome, std::int64_t step);

  void warn_of_epoch_without_training();
  void end();

  TrainerState& run_;
  Progress& progress_;
  LoopPosition& position_;
  HookRunner& hooks_;
  const PrecisionPolicy& precision_;
  const bool alone_;  ///< the only rank: there is nobody to agree with
  StopConditions stop_;
  CommandedWork commanded_;
  StepVotes votes_;
  TrainingData& data_;
  FitValidation& validation_;
  const EpochPlan& plan_;
  AutomaticOptimization automatic_;
  SchedulerRunner schedulers_;
  MetricRows rows_;
  bool was_empty_ = false;
  bool has_batch_ = true;        ///< where the epoch begins or goes on: ranks have one, or the only rank has
  std::int64_t window_ = 1;      ///< accumulate_grad_batches that iterations are planned with
  std::int64_t first_step_ = 0;  ///< global_step when the epoch began; -1: it was resumed
};

}  // namespace levin
