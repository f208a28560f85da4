#pragma once

#include "levin/core/base/shared_interval.h"
#include "levin/core/module.h"
#include "levin/core/run/boundaries.h"
#include "levin/core/run/epoch_plan.h"
#include "levin/core/step/precision.h"
#include "levin/core/train/run_data.h"

namespace levin {

struct EvaluationHooks;

/// Validation, test, prediction and the sanity check: one pass over one or more loaders, without gradients. Ranks may have
/// different numbers of batches; they meet at the end only.
class EvaluationLoop {
 public:
  /// `keep_predictions`: for take_predictions().
  EvaluationLoop(TrainerState& run, const PrecisionPolicy& precision, Stage stage, LoaderList loaders,
                 bool keep_predictions = false);

  /// False when the limit of a stage leaves no data at all.
  static bool takes_any(const TrainerOptions& options, Stage stage);
  /// False when it leaves nothing to evaluate, or there are no loaders, on any rank.
  bool may_have_batches() const { return may_have_batches_; }
  const LoaderList& loaders() const { return loaders_; }
  /// Limits each loader to so many batches.
  void shorten(std::int64_t batches) {
    for (std::optional<std::int64_t>& cap : caps_) cap = std::min(cap.value_or(batches), batches);
    for (std::int64_t& number : num_batches_) number = number < 0 ? batches : std::min(number, batches);
  }
  void run();
  /// One map for each loader: what was logged for it.
  std::vector<MetricMap> results() const;
  /// What predict_step returned, by loader and batch.
  std::vector<std::vector<Batch>> take_predictions() { return std::move(predictions_); }
  const std::vector<std::int64_t>& num_batches() const { return num_batches_; }

 private:
  class Pass;

  template <class Hooks, class... Args>
  void run_hooks(const Hooks& hooks, const Args&... args);
  void meet_after_batches();
  /// The x axis of its rows.
  std::int64_t row_step() const;
  void run_loader(std::int64_t dataloader_idx);
  void run_batch(Batch given, std::int64_t batch_idx, std::int64_t dataloader_idx);

  TrainerState& run_;
  const PrecisionPolicy& precision_;
  HookRunner& hooks_;
  MetricRows rows_;
  Stage stage_;
  const EvaluationHooks& names_;
  LoaderList loaders_;
  std::vector<std::optional<std::int64_t>> caps_;
  std::vector<LoaderCursor> cursors_;  ///< by loader, each made when it is read first
  std::vector<std::int64_t> num_batches_;
  std::vector<std::vector<Batch>> predictions_;
  bool keep_predictions_;
  bool may_have_batches_ = false;
  std::int64_t samples_ = 0;  ///< of this rank, in this run
};

/// Validation inside fit(): the sanity check before it, and when and how validation runs during training.
class FitValidation {
 public:
  FitValidation(TrainerState& run, const PrecisionPolicy& precision, DataSource& source)
      : run_(run), precision_(precision), source_(source), hooks_(run.hooks) {}

  /// Asks for the loaders, within the sanity check if there is one.
  void set_up_first();
  /// Asks for them again.
  void set_up();
  /// Evaluates a few batches before training. Leaves no trace in metrics, random numbers and counters.
  void sanity_check();
  /// If options ask for it, evaluates all batches before training, with rows and metrics of a validation. Random numbers are
  /// restored. Ranks: all.
  void validate_before_training();
  /// Null when there is no validation at all.
  const EvaluationLoop* loop() const { return loop_.get(); }

  /// This rank's batches, for agree(): -1 if unknown, 0 for none.
  std::int64_t rank_batches() const;
  /// Called: before an epoch. `any_batches`: some rank has validation batches; `epoch_batches`: of training, if known.
  void agree(bool any_batches, const std::optional<std::int64_t>& epoch_batches);
  /// Training starts.
  void start_clock();

  /// Ranks: all, after each iteration. Runs a validation that is due or requested. `stopping`: training ends with this
  /// iteration; `inside`: it is not the epoch's last. A validation due only to the stop is then postponed
  /// (Iteration::validation_is_left).
  void run_if_due(Iteration& iteration, bool stopping, bool inside);
  /// The same, once the epoch's end is known, for an iteration that was not known to be its last.
  void run_if_due_at_end(const Iteration& iteration);
  /// Runs a validation, after writing the checkpoints that were requested before it.
  void run(const Iteration& iteration);
  /// The same as a part of the current place.
  void run_here(const Iteration& iteration);

 private:
  /// Ranks: all, in each iteration of an epoch that validates. The time between validations has passed, by rank 0's clock.
  bool time_passed();
  /// Batches per loader in the sanity check: -1 for all, 0 without one.
  std::int64_t sanity_steps() const;

  TrainerState& run_;
  const PrecisionPolicy& precision_;
  DataSource& source_;
  HookRunner& hooks_;
  std::unique_ptr<EvaluationLoop> loop_;
  ValidationSchedule schedule_;
  std::optional<SharedInterval> interval_;  ///< when validation goes by time
};

}  // namespace levin
