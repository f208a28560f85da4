#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "levin/core/loops/data_source.h"
#include "levin/core/loops/epoch_plan.h"
#include "levin/core/loops/evaluation_loop.h"
#include "levin/core/loops/hook_runner.h"
#include "levin/core/loops/loader_cursor.h"
#include "levin/core/loops/metric_rows.h"
#include "levin/core/loops/optimization.h"
#include "levin/core/loops/scheduler_runner.h"
#include "levin/core/loops/shared_interval.h"
#include "levin/core/loops/step_votes.h"

namespace levin {

/// Where in the training data a run resumes.
struct ResumePoint {
  std::int64_t batches_done = 0;                ///< of the epoch that was under way
  std::vector<std::vector<std::byte>> metrics;  ///< that the epoch had logged: MetricStore::restore_training_epoch
};

/// Training: epochs, batches, validation in between, and the decisions when to stop. Every decision is made from what all ranks
/// know, so that all ranks make the same one. An epoch is a row of turns; in each turn every rank that still has a batch works
/// on one, and the others take part in the reduction without.
class FitLoop {
 public:
  FitLoop(Trainer::Runtime& runtime, const Precision& precision, DataSource& source);
  ~FitLoop();
  FitLoop(const FitLoop&) = delete;
  FitLoop& operator=(const FitLoop&) = delete;

  void run(const ResumePoint& resume);

 private:
  /// What all ranks know of one turn.
  struct Turn {
    std::int64_t iteration = 0;
    bool starts_window = true;  ///< gradients start at zero
    bool ends_window = true;    ///< the optimizer steps
    bool is_last = false;       ///< no rank has another batch in this epoch
    bool end_epoch = false;     ///< a rank asked to skip the rest of the epoch
  };

  void setup_validation();
  void setup_training();
  void reload_if_due();
  void sanity_check();
  Limit sanity_limit(std::int64_t steps) const;
  void agree_on_epoch();
  void warn_of_long_interval();
  void announce() const;

  void train_epochs(const ResumePoint& resume);
  /// True when training is over; state_.end_reason then says why.
  bool done();
  bool can_stop_early() const;
  bool stops_here() const;
  void check_signal() const;

  void run_epoch(const ResumePoint& resume);
  Turn run_turn(std::int64_t iteration);
  void plan_turn(Turn& turn);
  StepOutput optimize(const Turn& turn, const Batch* batch);
  StepOutput forward_only(const Turn& turn, const Batch* batch);
  void learn_from_votes(Turn& turn);
  void finish_turn(const Turn& turn);
  void validate_if_due(const Turn& turn);
  /// Ranks: all, in each turn of an epoch that validates. The time between validations has passed, by rank 0's clock.
  bool validation_time_passed();
  void end_epoch(bool completed);

  Trainer::Runtime& runtime_;
  LoopState& state_;
  const Precision& precision_;
  DataSource& source_;
  HookRunner hooks_;
  StepVotes votes_;
  AutomaticOptimization automatic_;
  SchedulerRunner schedulers_;
  MetricRows rows_;
  LoaderPtr train_;
  std::unique_ptr<EvaluationLoop> validation_;
  std::unique_ptr<LoaderCursor> cursor_;
  std::optional<std::int64_t> rank_batches_;  ///< of this rank; unset when unknown
  EpochPlan plan_;
  ValidationSchedule schedule_;
  std::optional<SharedInterval> validation_interval_;  ///< when validation goes by time
  std::int64_t loaded_in_epoch_ = 0;
};

}  // namespace levin
