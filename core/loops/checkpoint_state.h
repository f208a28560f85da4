#pragma once

#include <filesystem>
#include <string>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/loops/fit_loop.h"
#include "levin/core/loops/runtime.h"

namespace levin {

/// Ranks: all, except while an error leaves (then rank 0 alone writes what it has). Puts a checkpoint together and has rank 0
/// write it. Throws IoError on every rank when it could not be written.
void save_run(Trainer::Runtime& runtime, const std::filesystem::path& file, bool weights_only);

/// The file that a ckpt_path stands for: "best", "last" or a path. Throws ConfigError when there is none.
std::filesystem::path resolve_checkpoint(const Trainer::Runtime& runtime, const std::string& ckpt_path);

/// Weights and buffers, the state of the data module and, when fitting, of callbacks, and the on_load_checkpoint hooks.
void restore_module(Trainer::Runtime& runtime, const Checkpoint& checkpoint);

/// Optimizers, schedulers, counters and random state. Gives where in the data training goes on.
ResumePoint restore_training(Trainer::Runtime& runtime, const Checkpoint& checkpoint);

/// The x axis of training rows at which a checkpoint was written.
std::int64_t logging_step_of(const Checkpoint& checkpoint);

}  // namespace levin
