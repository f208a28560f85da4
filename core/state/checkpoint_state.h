#pragma once

#include "levin/core/state/trainer_state.h"
#include "levin/core/step/precision.h"

namespace levin {

// Saving and resuming as a whole, and where a new kind of state belongs: docs/internals/architecture.md, "What a checkpoint
// knows".

struct SaveOptions {
  bool weights_only = false;
  bool in_background = false;  ///< Trainer::save_checkpoint_in_background()
};

/// Ranks: all; while an error leaves rank 0 alone writes what it has. In a hook of fit it is done at the next point at which
/// the run can be saved. Throws IoError on every rank when the file cannot be written.
void save_run(TrainerState& run, const std::filesystem::path& file, SaveOptions options);

/// Writes what hooks have asked for. Ranks: all, where a Place has just begun, and at the end of fit.
void save_requested(TrainerState& run);

/// Ranks: all. The file that RunOptions::ckpt_path stands for, as rank 0 finds it. Throws ConfigError on every rank for none.
std::filesystem::path resolve_checkpoint(TrainerState& run, const std::string& ckpt_path);

/// What restore_data() and restore_module() take back, as it is now, but for callbacks.
Checkpoint module_state(TrainerState& run);

/// The state of the data module. Called: before the module's setup() and configure_model(), which may ask the data for sizes.
void restore_data(TrainerState& run, const Checkpoint& checkpoint);

/// Weights and buffers and, when fitting, the state of callbacks, and the on_load_checkpoint hooks. The
/// module comes into its run's format before: weights would be rounded to what it was built in.
void restore_module(TrainerState& run, const PrecisionPolicy& precision, const Checkpoint& checkpoint);

/// Options of module and data that are others than those of the run that wrote the checkpoint: "model.lr: 0.1 (0.2 there)".
std::vector<std::string> different_options(const RunParts& parts, const Checkpoint& checkpoint);

/// Optimizers, schedulers and counters. Gives where training goes on, and what this rank takes over when it is there.
ResumePoint restore_training(TrainerState& run, const Checkpoint& checkpoint);

/// Written by levin, and not read from another program's file.
inline bool is_of_levin(const Checkpoint& checkpoint) { return checkpoint.manifest.contains("levin_version"); }

/// Throws ConfigError for a checkpoint of another levin, from which this one cannot resume.
void require_this_format(const Checkpoint& checkpoint);

/// The checkpoint is of a run that was at that place.
bool is_at(const Checkpoint& checkpoint, Place place);

/// The x axis of training rows from which on rows are written anew.
std::int64_t logging_step_of(const Checkpoint& checkpoint);

}  // namespace levin
