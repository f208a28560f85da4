#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/protocol/hook.h"
#include "levin/core/resume/loop_position.h"
#include "levin/core/run/throughput.h"
#include "levin/core/strategy.h"

namespace levin {

class BatchLoader;

/// How far a stage has come through one of its loaders, so that collected rows can be told to samples.
struct LoaderProgress {
  const BatchLoader* loader = nullptr;
  std::int64_t batches = 0;  ///< taken in this epoch, the one in work included
  std::int64_t skipped = 0;  ///< the first of these, which the run that this one resumes has seen
};

/// What each rank has of its own, beside the weights that all ranks share. A checkpoint holds every rank's.
struct RankState {
  std::string random;          ///< bytes of its generator's state
  std::string before_reading;  ///< RandomState::before_reading; empty when no batch lies ready
  std::string values;          ///< JSON: what it has logged, what it shows, its wishes
  std::string gradients;       ///< bytes of gradients that wait for more batches, by parameter
};

/// Gradients that wait for more batches before the optimizer steps.
struct GradientWindow {
  bool open = false;         ///< at least one batch is in, and the step is to come
  std::int64_t weight = 0;   ///< of this rank's batches in it
  bool in_backward = false;  ///< the batch in work may have changed the gradients already
};

/// Where a run is, in plain numbers. Loops write it; the Trainer's getters read it.
struct LoopState {
  Stage stage = Stage::kTrain;
  bool fitting = false;
  Hook hook = Hook::kNone;

  std::int64_t epoch = 0;            ///< current_epoch
  std::int64_t global_step = 0;      ///< optimizer steps, over all optimizers
  std::int64_t logging_step = 0;     ///< the x axis of rows: batches that ended in a step (Lightning's _batches_that_stepped)
  std::int64_t batch_idx = 0;        ///< in the epoch, of the stage that runs
  std::int64_t total_batch_idx = 0;  ///< training batches over all epochs
  std::int64_t dataloader_idx = 0;
  bool in_batch = false;                ///< between taking a batch and the end of its hooks
  std::vector<LoaderProgress> loaders;  ///< of the stage that runs
  bool is_last_batch = false;
  std::int64_t num_training_batches = -1;
  std::vector<std::int64_t> num_evaluation_batches;
  std::vector<std::int64_t> evaluation_steps;  ///< validation batches so far, by loader: the x axis of their rows
  bool validates = false;                      ///< fit() validates; agreed, where a rank's own number of batches may be 0
  EvaluationTotals evaluation_totals;          ///< of the last evaluation whose batches are done on all ranks
  LoopPosition position;
  bool replaying = false;  ///< a run that resumes has not come to where it goes on; its hooks set things up and write nothing
  std::int64_t accumulate_grad_batches = 1;
  GradientWindow window;
  std::optional<std::int64_t> samples_done;  ///< of the epoch's global order; unset when the loader cannot tell
  std::int64_t full_batch_size = 0;          ///< samples of a full batch on every rank; 0 when ranks do not agree on one

  bool has_next_batch = true;  ///< training: this rank has a batch after the one in work

  bool stop_wish = false;    ///< this rank asked to stop
  bool stop_agreed = false;  ///< the ranks agreed to stop
  int stopping_rank = 0;     ///< the lowest rank that asked for it
  std::string stop_reason;   ///< as this rank gave it
  std::string end_reason;    ///< why training ended, for the person who reads the console
  int signal_agreed = 0;
  bool skip_epoch_wish = false;  ///< this rank asked to end the epoch under way

  /// Where the first error was thrown, kept while it leaves through the hooks above.
  std::optional<Whereabouts> failed_at;

  Whereabouts whereabouts() const { return {stage, hook, epoch, global_step}; }
};

}  // namespace levin
