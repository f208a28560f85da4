#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "levin/core/engine/parts/metric_rows.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/engine/step/precision.h"

namespace levin {

struct EvaluationHooks;

/// Validation, test, prediction and the sanity check: one pass over one or more loaders, without gradients. Ranks may have
/// different numbers of batches; they meet at the end only.
class EvaluationLoop {
 public:
  /// `limit`: batches of each loader, by the option of this name. `keep_predictions`: for take_predictions().
  EvaluationLoop(TrainerState& run, const Precision& precision, Stage stage, LoaderList loaders, std::optional<Limit> limit,
                 const char* limit_name, bool keep_predictions = false);

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
  void throw_if_signalled() const;
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

}  // namespace levin
