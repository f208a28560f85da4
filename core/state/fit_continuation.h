#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/rank_group.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// A fit that resumes where an earlier process of it ended: the launcher has started its ranks again, or its job went back into
/// the scheduler's queue. The checkpoints of such a job are FOLDER/hpc_ckpt_N.ckpt, as in Lightning; each holds, as
/// `queued_job`, its job and the RestartNotes of its run.
class FitContinuation {
 public:
  explicit FitContinuation(TrainerState& run) : run_(run) {}

  /// Ranks: all. Called: when a fit begins. The checkpoint that it resumes from, which replaces the given one.
  std::optional<std::string> checkpoint(const std::optional<std::string>& given);
  /// Called: on rank 0, when the fit resumes. Adds the steps at which it did to the hyper-parameters. They are no column of
  /// metrics, since a run that was started again has the same rows as one that was not.
  void add_to(Value& hyperparams);
  /// Called: on rank 0, while a signal that all ranks agreed on ends the fit. Saves a checkpoint if it is a scheduler's job.
  void save_for_queue();
  /// Called: last, after a signal has ended the fit. Puts the saved job back into its queue.
  void go_back_to_queue();
  /// Called: on rank 0, when the fit has succeeded. Removes what was saved for the queue.
  void forget_queue();

 private:
  RankGroup& ranks() const { return run_.strategy().ranks(); }
  bool comes_from_queue() const {
    const auto job = ranks().batch_job();
    return job && job->restarts > 0;
  }
  bool resumes() const { return ranks().restarts() > 0 || comes_from_queue(); }

  TrainerState& run_;
  std::optional<std::filesystem::path> saved_;  ///< for the queue
};

}  // namespace levin
