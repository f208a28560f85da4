#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/options/value.h"
#include "levin/core/rank_group.h"

namespace levin {

/// A fit that goes on where an earlier process of it ended: one that failed, and whose ranks the launcher has started again, or
/// one whose job went back into its scheduler's queue.
class FitContinuation {
 public:
  explicit FitContinuation(TrainerState& run) : run_(run) {}

  /// Ranks: all. Called: when a fit begins. What it goes on from in place of what it was given.
  std::optional<std::string> checkpoint(const std::optional<std::string>& given);
  /// Called: on rank 0, where the fit goes on. Adds the steps at which it has done so: to the hyper-parameters, and not as a
  /// column of metrics, since rows of a run that was started again are those of one that was not.
  void add_to(Value& hyperparams);
  /// Called: on rank 0, while a signal that all ranks agreed on ends the fit. Saves it when it is that of a scheduler's job.
  void save_for_queue();
  /// Called: last of all, with the signal that has ended the fit. Puts the saved job back into its queue.
  void go_back_to_queue();
  /// Called: on rank 0, when the fit has ended well. What was saved for the queue is of no more use.
  void forget_queue();

 private:
  std::optional<BatchJob> job() const { return run_.strategy().ranks().batch_job(); }

  TrainerState& run_;
  std::optional<std::filesystem::path> saved_;  ///< for the queue
};

// Checkpoints of jobs that went back into their scheduler's queue: FOLDER/hpc_ckpt_N.ckpt, with Lightning's names. Each holds,
// as `queued_job`, the job that it is of and the RestartNotes of its run.

/// The one to write next: N is 1 more than the highest that is there.
std::filesystem::path next_queue_file(const std::filesystem::path& folder);
/// The RestartNotes in the newest one of this job that is whole; "" where there is none. Others are passed over.
std::string notes_from_queue(const std::filesystem::path& folder, const std::string& job);
/// Removes those of this job, whose run has ended well.
void remove_queue_files(const std::filesystem::path& folder, const std::string& job);

}  // namespace levin
