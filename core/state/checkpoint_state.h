#pragma once

#include "levin/core/state/run_sections.h"
#include "levin/core/state/trainer_state.h"
#include "levin/core/step/precision.h"

namespace levin {

// Saving and resuming as a whole. What a checkpoint has: run_sections.h.

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

/// A place begins: see Place.
void begin_place(TrainerState& run, Place place);

/// A copy of the weights and of the data module's state, for LoadStep::kSetup and restore_module().
Checkpoint module_state(TrainerState& run);

/// Weights and buffers and, when fitting, the state of callbacks, and the on_load_checkpoint hooks. The module comes into its
/// run's format before: weights would be rounded to what it was built in.
void restore_module(TrainerState& run, const PrecisionPolicy& precision, const Checkpoint& checkpoint);

/// Options of module and data that are others than those of the run that wrote the checkpoint: "model.lr: 0.1 (0.2 there)".
std::vector<std::string> different_options(const RunParts& parts, const Checkpoint& checkpoint);

}  // namespace levin
