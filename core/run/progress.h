#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/format.h"
#include "levin/core/base/hook.h"
#include "levin/core/callback.h"
#include "levin/core/protocol/frame.h"

namespace levin {

class BatchLoader;

/// The progress of a stage through one of its loaders, so that collected rows can be matched to samples.
struct LoaderProgress {
  const BatchLoader* loader = nullptr;
  std::int64_t batches = 0;  ///< taken in this epoch, the one in work included
  std::int64_t skipped = 0;  ///< the first of these, which the run that this one resumes has seen
};

/// Where the stage that runs is in its batches.
struct BatchProgress {
  std::int64_t batch_idx = 0;  ///< in the epoch
  std::int64_t dataloader_idx = 0;
  bool is_last = false;
  bool in_work = false;                 ///< between taking a batch and the end of its hooks
  bool has_next = true;                 ///< training: this rank has a batch after the one in work
  std::int64_t samples_of_all = 0;      ///< training: those of the batch in work, where ranks have met after its step
  std::vector<LoaderProgress> loaders;  ///< of the stage that runs
};

/// The progress of a run, in plain numbers. Only the loops write it.
struct Progress {
  Stage stage = Stage::kTrain;
  bool fitting = false;  ///< inside fit(), its validation and its sanity check
  BatchProgress batch;

  std::int64_t fit = 0;  ///< fits of this process before this one; the same on all ranks, which run the same program
  std::int64_t epoch = 0;
  std::int64_t loaders_epoch = 0;    ///< in which the training loaders were made
  std::string training_data;         ///< what the training loader reads, to compare with a checkpoint's; empty: not known
  std::int64_t global_step = 0;      ///< optimizer steps, over all optimizers
  std::int64_t logging_step = 0;     ///< the x axis of rows: batches that ended in a step (Lightning's _batches_that_stepped)
  std::int64_t total_batch_idx = 0;  ///< training batches over all epochs
  std::int64_t num_training_batches = -1;  ///< of an epoch; -1: unknown
  std::vector<std::int64_t> num_evaluation_batches;
  std::vector<std::int64_t> evaluation_steps;  ///< evaluation batches so far, by loader: MetricRow::evaluation_batch
  bool validates = false;                      ///< fit() validates; agreed, where a rank's own number of batches may be 0
  EvaluationTotals evaluation_totals;          ///< of the last evaluation whose batches are done on all ranks
  std::string end_reason;                      ///< why training ended, for the console

  /// The position of training, for messages.
  std::string where() const { return format("in epoch {} after global step {}", epoch, global_step); }
  Boundary boundary(BoundaryKind kind) const { return {kind, stage, epoch, global_step}; }
};

/// Gradients that wait for more batches before the optimizer steps.
struct GradientWindow {
  bool open = false;         ///< at least one batch is in, and the step is to come
  std::int64_t weight = 0;   ///< of this rank's batches in it
  bool in_backward = false;  ///< the batch in work may have changed the gradients already
};

/// How many batches make one optimizer step, and what each counts in it. The reduction gives the sum of gradients divided by
/// the number of ranks, and each loss is divided by scale(): the mean over a full window of full batches on every rank.
/// correction() makes good what is missing of that.
struct GradientAccumulation {
  std::int64_t batches = 1;          ///< accumulate_grad_batches, as of now
  std::int64_t full_batch_size = 0;  ///< samples of a full batch on every rank; 0 when ranks do not agree on one
  GradientWindow window = {};

  /// What a batch's loss is divided by in all: samples of a full batch times batches a step.
  std::int64_t scale() const { return std::max<std::int64_t>(1, full_batch_size) * batches; }
  /// What a full batch counts: its samples, or 1 where sizes are not known or there is nothing to weigh one batch against.
  std::int64_t full_weight(int world_size) const {
    const bool alone = world_size == 1 && batches == 1;
    return alone || full_batch_size == 0 ? 1 : full_batch_size;
  }
  /// What a batch of so many samples counts.
  std::int64_t weight_of(std::int64_t samples, int world_size) const { return full_weight(world_size) == 1 ? 1 : samples; }
  /// The factor by which gradients made of `weight`, not 0, over all ranks become the mean over what there was.
  double correction(std::int64_t weight, int world_size) const {
    const std::int64_t full = full_weight(world_size) * batches * world_size;
    return weight == full ? 1.0 : static_cast<double>(full) / static_cast<double>(weight);
  }
};

/// The time in which a run is in a stage, such as the validation inside fit(). The enclosing stage's progress comes back at the
/// end; but an error leaves all unchanged, so that its report says where it happened.
class StageScope {
 public:
  StageScope(Progress& progress, Stage stage)
      : progress_(progress), outer_stage_(std::exchange(progress.stage, stage)), outer_(progress.batch) {
    progress_.batch.loaders.clear();
  }
  ~StageScope() {
    if (std::uncaught_exceptions() > exceptions_) return;
    progress_.batch = std::move(outer_);
    progress_.stage = outer_stage_;
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;

  /// The stage's batches are done: what follows, a checkpoint say, is at the enclosing stage's batch.
  void end_batches() {
    std::vector<LoaderProgress> loaders = std::move(progress_.batch.loaders);
    progress_.batch = outer_;
    progress_.batch.loaders = std::move(loaders);
  }

 private:
  Progress& progress_;
  Stage outer_stage_;
  BatchProgress outer_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace levin
