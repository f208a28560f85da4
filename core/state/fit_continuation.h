#pragma once

#include <mutex>

#include "levin/core/config/options.h"
#include "levin/core/config/value_json.h"
#include "levin/core/rank_group.h"
#include "levin/core/state/trainer_state.h"

namespace levin {

/// A parsed ckpt_path.
struct CheckpointChoice {
  std::filesystem::path place;  ///< the file, or the folder of a run; empty: a run of this experiment
  std::string which;            ///< "best" or "last" of the run; empty: the file
};

/// Parses a ckpt_path: "best", "last", a file, "FOLDER:best", "FOLDER:last", or a run's folder, which means its last.
/// Throws ConfigError when there is no such file or folder.
CheckpointChoice read_checkpoint_choice(const std::string& ckpt_path);

/// Warns that "best" means the first of these monitors when there are others.
void warn_of_other_monitors(const std::vector<std::string>& monitors);
/// The newest checkpoint, or the best that the newest ones name, in the first of these folders that has one. Of several
/// ModelCheckpoints the first with a monitor decides what is best; a warning names the others. Damaged files are skipped with
/// a warning. Throws ConfigError that names the folders when there is none.
std::filesystem::path find_checkpoint(const std::vector<std::filesystem::path>& folders, const std::string& which);

/// A path that cannot be examined counts as missing.
bool is_there(const std::filesystem::path& path);

/// "epoch 3, step 40, val_loss 0.123": the origin of a checkpoint, with the score if a ModelCheckpoint had one for this file.
std::string checkpoint_summary(const Checkpoint& checkpoint);

/// What an attempt of a run passes on to the next one, when the run is started again after a failure: for each fit of the
/// program, in order, where its loggers write and which checkpoints it has. Rank 0 stores it. Threading: the training thread;
/// note_checkpoint() also the thread of BackgroundFiles.
class RestartNotes {
 public:
  /// A fit begins. `earlier`: the notes of earlier attempts, from rank 0; unset in the first.
  RestartNotes(RankGroup& ranks, std::size_t fit, const std::optional<std::string>& earlier);
  /// The notes as they are stored.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return written();
  }

  /// The newest whole checkpoint of earlier attempts of this fit; one that rank 0 wrote alone after an error only if there is
  /// no other. Damaged files are skipped with a warning.
  std::optional<std::string> newest_checkpoint() const;
  /// What Logger::open() of an earlier attempt returned, by logger; empty in the first.
  const std::vector<std::string>& logger_tokens() const { return fits_[fit_].loggers; }
  /// The step at which each attempt of this fit but the first began; 0 for the beginning.
  const std::vector<std::int64_t>& restart_steps() const { return fits_[fit_].restart_steps; }

  void note_loggers(std::vector<std::string> tokens);
  void note_restart(std::int64_t step);
  /// `alone`: without the states of other ranks. `keep`: false for a file that contains these notes itself.
  void note_checkpoint(const std::filesystem::path& file, bool alone, bool keep = true);

 private:
  struct File {
    std::string file;
    bool alone = false;
  };
  struct Fit {
    std::vector<std::string> loggers;
    std::vector<File> checkpoints;  ///< oldest first
    std::vector<std::int64_t> restart_steps;
  };
  using Fits = std::vector<Fit>;
  std::string written() const { return to_json(OptionType<Fits>::write(fits_)); }
  /// Stores them for later attempts; for many fits with long paths, only the newest checkpoints of each.
  void keep();

  RankGroup& ranks_;
  std::size_t fit_;
  mutable std::mutex mutex_;
  Fits fits_;
};

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
