#pragma once

#include <mutex>

#include "levin/core/config/options.h"
#include "levin/core/config/value_json.h"
#include "levin/core/rank_group.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// What a ckpt_path says.
struct CheckpointChoice {
  std::filesystem::path place;  ///< the file, or the folder of a run; empty: a run of this experiment
  std::string which;            ///< "best" or "last" of the run; empty: the file
};

/// Takes a ckpt_path apart: "best", "last", a file, "FOLDER:best", "FOLDER:last", or a run's folder, which means its last.
/// Throws ConfigError when there is no such file or folder.
CheckpointChoice read_checkpoint_choice(const std::string& ckpt_path);

/// The newest checkpoint, or the best that the newest ones name, in the first of these folders that has such. Of several
/// ModelCheckpoints the first with a monitor says what is best; others are told of. Damaged files are passed over, with a
/// warning. Throws ConfigError that names the folders when there is none.
/// Warns where "best" is of the first of these monitors and there are others.
void warn_of_other_monitors(const std::vector<std::string>& monitors);
std::filesystem::path find_checkpoint(const std::vector<std::filesystem::path>& folders, const std::string& which);

/// What cannot be looked at counts as not there: opening it says why.
bool is_there(const std::filesystem::path& path);

/// "epoch 3, step 40, val_loss 0.123": what a checkpoint is of; the score where a ModelCheckpoint had one for this very file.
std::string checkpoint_summary(const Checkpoint& checkpoint);

/// What the attempts of a run that is started again after a failure tell those after them: for each fit of the program, in
/// order, where its loggers write and which checkpoints it has. Rank 0 keeps them. Threading: the training thread;
/// note_checkpoint() also that of BackgroundFiles.
class RestartNotes {
 public:
  /// A fit begins. `earlier`: what earlier attempts kept, as rank 0 knows it; unset in the first.
  RestartNotes(RankGroup& ranks, std::size_t fit, const std::optional<std::string>& earlier);
  /// What is kept.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return written();
  }

  /// The newest whole checkpoint of earlier attempts of this fit; one that rank 0 wrote alone, while an error left, only where
  /// there is no other. Damaged files are passed over, with a warning.
  std::optional<std::string> newest_checkpoint() const;
  /// What Logger::open() of an earlier attempt gave, by logger; empty in the first.
  const std::vector<std::string>& logger_tokens() const { return fits_[fit_].loggers; }
  /// Where each attempt of this fit but the first began: a step, 0 for the beginning.
  const std::vector<std::int64_t>& restart_steps() const { return fits_[fit_].restart_steps; }

  void note_loggers(std::vector<std::string> tokens);
  void note_restart(std::int64_t step);
  /// `alone`: without the states of other ranks. `keep`: false for a file that holds these notes itself.
  void note_checkpoint(const std::filesystem::path& file, bool alone, bool keep = true);

 private:
  struct File {
    std::string file;
    bool alone = false;
  };
  struct Fit {
    std::vector<std::string> loggers;
    std::vector<File> checkpoints;  ///< the newest last
    std::vector<std::int64_t> restart_steps;
  };
  using Fits = std::vector<Fit>;
  std::string written() const { return to_json(OptionType<Fits>::write(fits_)); }
  /// Hands them to the attempts after this one; of many fits with long paths, the newest checkpoints of each.
  void keep();

  RankGroup& ranks_;
  std::size_t fit_;
  mutable std::mutex mutex_;
  Fits fits_;
};

/// A fit that goes on where an earlier process of it ended: one whose ranks the launcher has started again, or whose job went
/// back into its scheduler's queue. Such a job's checkpoints are FOLDER/hpc_ckpt_N.ckpt, Lightning's names; each holds, as
/// `queued_job`, its job and the RestartNotes of its run.
class FitContinuation {
 public:
  explicit FitContinuation(TrainerState& run) : run_(run) {}

  /// Ranks: all. Called: when a fit begins. What it goes on from in place of what it was given.
  std::optional<std::string> checkpoint(const std::optional<std::string>& given);
  /// Called: on rank 0, where the fit goes on. Adds the steps at which it did: to the hyper-parameters, and not as a column of
  /// metrics, since rows of a run that was started again are those of one that was not.
  void add_to(Value& hyperparams);
  /// Called: on rank 0, while a signal that all ranks agreed on ends the fit. Saves it when it is that of a scheduler's job.
  void save_for_queue();
  /// Called: last of all, with the signal that has ended the fit. Puts the saved job back into its queue.
  void go_back_to_queue();
  /// Called: on rank 0, when the fit has ended well. What was saved for the queue is of no more use.
  void forget_queue();

 private:
  RankGroup& ranks() const { return run_.strategy().ranks(); }
  bool comes_from_queue() const {
    const auto job = ranks().batch_job();
    return job && job->restarts > 0;
  }
  bool goes_on() const { return ranks().restarts() > 0 || comes_from_queue(); }

  TrainerState& run_;
  std::optional<std::filesystem::path> saved_;  ///< for the queue
};

}  // namespace levin
