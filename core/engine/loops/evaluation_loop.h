#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/base/shared_interval.h"
#include "levin/core/callback.h"
#include "levin/core/engine/loops/data_source.h"
#include "levin/core/engine/parts/epoch_plan.h"
#include "levin/core/engine/parts/metric_rows.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/engine/step/precision.h"
#include "levin/core/module.h"
#include "levin/core/protocol/boundary.h"

namespace levin {

/// The hooks of one kind of evaluation: the same loop serves validation and test.
struct EvaluationHooks {
  using CallbackHook = void (Callback::*)(Trainer&, Module&);
  using ModuleHook = void (Module::*)();
  using CallbackBatchStart = void (Callback::*)(Trainer&, Module&, const Batch&, std::int64_t, std::int64_t);
  using ModuleBatchStart = void (Module::*)(const Batch&, std::int64_t, std::int64_t);
  using CallbackBatchEnd = void (Callback::*)(Trainer&, Module&, const StepOutput&, const Batch&, std::int64_t, std::int64_t);
  using ModuleBatchEnd = void (Module::*)(const StepOutput&, const Batch&, std::int64_t, std::int64_t);
  template <class CallbackMethod, class ModuleMethod>
  struct Pair {
    Hook hook;
    CallbackMethod callback;
    ModuleMethod module;
  };

  Hook model_eval_hook;
  ModuleHook model_eval;
  Hook model_train_hook;
  ModuleHook model_train;
  Pair<CallbackHook, ModuleHook> start;
  Pair<CallbackHook, ModuleHook> epoch_start;
  Pair<CallbackBatchStart, ModuleBatchStart> batch_start;
  Hook step_hook;
  void (Module::*step)(const Batch&, std::int64_t);  ///< null for prediction
  Pair<CallbackBatchEnd, ModuleBatchEnd> batch_end;  ///< null for prediction, whose output is a Batch
  Pair<CallbackHook, ModuleHook> epoch_end;
  Pair<CallbackHook, ModuleHook> end;
};

/// For kValidate and kSanityCheck, kTest, kPredict.
const EvaluationHooks& evaluation_hooks(Stage stage);

/// Validation, test, prediction and the sanity check: one pass over one or more loaders, without gradients. Ranks may have
/// different numbers of batches; they meet at the end only.
class EvaluationLoop {
 public:
  /// `keep_predictions`: for take_predictions().
  EvaluationLoop(TrainerState& run, const Precision& precision, Stage stage, LoaderList loaders, bool keep_predictions = false);

  /// False when the limits leave nothing to evaluate, on any rank.
  bool may_have_batches() const { return may_have_batches_; }
  const LoaderList& loaders() const { return loaders_; }
  /// No more than so many batches of each loader.
  void shorten(std::int64_t batches);
  void run();
  /// The end of a validation that an earlier run has done but for some hooks: on_validation_end from
  /// LoopPosition::hooks_done on.
  void run_end();
  /// One map for each loader: what was logged for it.
  std::vector<MetricMap> results() const;
  /// What predict_step returned, by loader and batch.
  std::vector<std::vector<Batch>> take_predictions() { return std::move(predictions_); }
  const std::vector<std::int64_t>& num_batches() const { return num_batches_; }

 private:
  class Pass;

  void run_end_hooks();
  /// Meets the ranks that have come to the end of their batches too.
  void meet_after_batches();
  void run_loader(std::int64_t dataloader_idx);
  void run_batch(Batch given, std::int64_t batch_idx, std::int64_t dataloader_idx);

  TrainerState& run_;
  const Precision& precision_;
  HookRunner& hooks_;
  MetricRows rows_;
  Stage stage_;
  const EvaluationHooks& names_;
  LoaderList loaders_;
  std::vector<std::optional<std::int64_t>> caps_;
  std::vector<std::int64_t> num_batches_;
  std::vector<std::vector<Batch>> predictions_;
  bool keep_predictions_;
  bool may_have_batches_ = false;
  std::int64_t samples_ = 0;  ///< of this rank, in this run
};

/// The table that validate() and test() print: a row a metric, a column a loader.
std::string evaluation_report(Stage stage, const std::vector<MetricMap>& results);

/// Validation inside fit(): the sanity check before it, and when and how validation runs during training.
class FitValidation {
 public:
  FitValidation(TrainerState& run, const Precision& precision, DataSource& source);

  /// Asks for the loaders, anew when called again.
  void set_up();
  /// A few batches before training. Leaves no trace: metrics, random numbers and counters are afterwards what they were.
  void sanity_check();
  /// Null when there is no validation at all.
  const EvaluationLoop* loop() const { return loop_.get(); }

  /// This rank's batches, for agree(): -1 when not known, 0 for none.
  std::int64_t rank_batches() const;
  /// Before an epoch. `any_batches`: some rank has validation batches; `epoch_batches`: of training, when known.
  void agree(bool any_batches, const std::optional<std::int64_t>& epoch_batches);
  /// Training starts.
  void start_clock();

  /// Ranks: all, after each iteration. Runs what is due. `stopping`: training ends with this iteration.
  void run_if_due(const Iteration& iteration, bool stopping);
  /// Runs it, from its beginning.
  void run(const Iteration& iteration);
  /// Runs what a run that was interrupted in on_validation_end has left: the hooks after the first `hooks_done`.
  void finish(int hooks_done);

 private:
  bool due(const Iteration& iteration, bool stopping);
  /// Ranks: all, in each iteration of an epoch that validates. The time between validations has passed, by rank 0's clock.
  bool time_passed();

  TrainerState& run_;
  const Precision& precision_;
  DataSource& source_;
  HookRunner& hooks_;
  std::unique_ptr<EvaluationLoop> loop_;
  ValidationSchedule schedule_;
  std::optional<SharedInterval> interval_;  ///< when validation goes by time
};

}  // namespace levin
