#pragma once

#include <filesystem>
#include <string>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/engine/state/resume_state.h"
#include "levin/core/engine/state/trainer_state.h"
#include "levin/core/engine/step/precision.h"

namespace levin {

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

/// Optimizers, schedulers and counters. Gives where training goes on, and what this rank takes over when it is there.
ResumePoint restore_training(TrainerState& run, const Checkpoint& checkpoint);

/// Written by levin, and not read from another program's file.
bool is_of_levin(const Checkpoint& checkpoint);

/// The checkpoint is of a run that had not begun its first epoch.
bool is_before_training(const Checkpoint& checkpoint);

/// The x axis of training rows from which on rows are written anew.
std::int64_t logging_step_of(const Checkpoint& checkpoint);
/// What a logger had been given, as far as the checkpoint knows.
RowCounts logger_rows_of(const Checkpoint& checkpoint, int rank, std::size_t logger);

}  // namespace levin
