#pragma once

#include "levin/core/state/run_sections.h"
#include "levin/core/state/trainer_state.h"
#include "levin/core/step/precision.h"

namespace levin {

// Saving and resuming as a whole. For the content of a checkpoint see run_sections.h.

struct SaveOptions {
  bool weights_only = false;
  bool in_background = false;  ///< Trainer::save_checkpoint_in_background()
};

/// Ranks: all; after an error, rank 0 alone writes its own state. A call in a hook of fit takes effect at the next point at
/// which the run can be saved. Throws IoError on every rank when the file cannot be written.
void save_run(TrainerState& run, const std::filesystem::path& file, SaveOptions options);

/// Writes the checkpoints that hooks have requested. Ranks: all, when a Place has just begun, and at the end of fit.
void save_requested(TrainerState& run);

/// Ranks: all. The file that RunOptions::ckpt_path means, as rank 0 finds it. Throws ConfigError on every rank if there is
/// none.
std::filesystem::path resolve_checkpoint(TrainerState& run, const std::string& ckpt_path);

/// A copy of the weights and of the data module's state, for LoadStep::kSetup and restore_module().
Checkpoint module_state(TrainerState& run);

/// Restores weights and buffers and, in a fit, the state of callbacks; runs the on_load_checkpoint hooks. Converts the
/// module to the run's precision first: otherwise weights would be rounded to the precision that it was built in.
void restore_module(TrainerState& run, const PrecisionPolicy& precision, const Checkpoint& checkpoint);

/// Options of module and data that differ from those of the run that wrote the checkpoint: "model.lr: 0.1 (0.2 there)".
std::vector<std::string> different_options(const RunParts& parts, const Checkpoint& checkpoint);

}  // namespace levin
