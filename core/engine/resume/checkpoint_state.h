#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/engine/state/resume_state.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/engine/step/precision.h"

namespace levin {

// Saving and resuming, as a whole. A run may be saved in nearly every hook, on any number of ranks, and one that resumes from
// the file ends as the first one would have: the same weights to the bit, rows, decisions and counters.
//
// Where. LoopPosition (core/checkpoint/loop_position.h) says at any time what training does next: a Place, and how much of it
// is done. The loops write it, and nothing else decides where a run goes on. In places that begin anew (on_train_start, the
// start of an epoch, a batch until its step, a validation) everything that happens is in memory: a run resumes at their
// beginning. So begin_place() remembers what will change in them (PlaceStart), and a checkpoint of such a place holds that in
// place of what is now. In the other places hooks decide, and write rows and files: HookCounter counts those that are done, and
// a run that resumes calls the rest.
//
// What. collect() has what all ranks have alike: weights, optimizers, schedulers, callbacks, counters, and the position as
// `loops`. RankState (rank_state.h) is what each has of its own: random numbers, what it logged, gradients that wait for more
// batches, wishes to stop; rank 0 gathers and writes it. parameter_state() says which parameters are trained, in which groups,
// at four moments, since hooks that run once more may freeze and add what they did before. The batch that lies ready is not
// saved but read again, with random numbers and counters as they were then (BeforeReading). Loggers are told how many rows they
// had been given, and drop those that came after.
//
// When not. Inside of an optimizer's step nobody knows what is taken, and from backward on, where gradients of earlier batches
// wait, nobody can tell these from the batch's own: check_moment() refuses. While an error leaves, rank 0 writes what it has,
// alone; where all ranks end for a signal, they give it their states first (keep_rank_states).
//
// Going on. The entry point reads the file, and restore_module() gives weights and callbacks theirs before optimizers are made.
// restore_training(), behind on_fit_start, does so for optimizers, schedulers and counters, and gives a ResumePoint. Set-up,
// the sanity check, on_train_start and on_train_epoch_start run as in any run: they make what is only in memory. What they
// logged, drew and wrote does not count; until the run is where it goes on (ResumeState::replaying), a checkpoint holds what
// the run was given (keep_resume_point). There resume_here() (loops/training_data.h) gives back all that is left: metrics,
// wishes, parameters, gradients, the place in the data, and random numbers last. Data is found by batches where ranks and batch
// sizes are those of before, else by samples of the epoch's global order (TrainingData::seek).
//
// A new kind of state belongs into collect() where ranks have it alike, else into rank_state.cpp; into PlaceStart, too, where a
// place that begins anew changes it; and into tests/support/resume_plans.cpp, whose programs save in every hook and resume from
// each. Keys that a checkpoint has keep their names and meaning, and may be missing in files of an earlier levin.

struct SaveOptions {
  bool weights_only = false;
  bool in_background = false;  ///< Trainer::save_checkpoint_in_background()
};

/// Ranks: all, except while an error leaves (then rank 0 alone writes what it has). Puts a checkpoint together and has rank 0
/// write it. Throws IoError on every rank when it could not be written.
void save_run(TrainerState& run, const std::filesystem::path& file, SaveOptions options);

/// Ranks: all. The file that RunOptions::ckpt_path stands for: rank 0 looks, and all get what it found. Throws ConfigError on
/// every rank when there is none.
std::filesystem::path resolve_checkpoint(TrainerState& run, const std::string& ckpt_path);

/// Weights and buffers, the state of the data module and, when fitting, of callbacks, and the on_load_checkpoint hooks. The
/// module comes into its run's format before: weights would be rounded to what it was built in.
void restore_module(TrainerState& run, const Precision& precision, const Checkpoint& checkpoint);

/// Options of module and data that are others than those of the run that wrote the checkpoint: "model.lr: 0.1 (0.2 there)".
std::vector<std::string> different_options(const RunParts& parts, const Checkpoint& checkpoint);

/// Optimizers, schedulers and counters. Gives where training goes on, and what this rank takes over when it is there.
ResumePoint restore_training(TrainerState& run, const Checkpoint& checkpoint);

/// Written by levin, and not read from another program's file.
bool is_of_levin(const Checkpoint& checkpoint);

/// The checkpoint is of a run that had not begun its first epoch.
bool is_before_training(const Checkpoint& checkpoint);

/// The x axis of training rows from which on rows are written anew.
std::int64_t logging_step_of(const Checkpoint& checkpoint);

}  // namespace levin
