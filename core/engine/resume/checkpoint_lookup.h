#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"

namespace levin {

/// What a ckpt_path says.
struct CheckpointChoice {
  std::filesystem::path place;  ///< the file, or the folder of a run; empty: a run of this experiment
  std::string which;            ///< "best" or "last" of the run; empty: the file
};

/// Takes a ckpt_path apart: "best", "last", a file, "FOLDER:best", "FOLDER:last", or the folder of a run, which means its last.
/// Throws ConfigError when there is no such file or folder.
CheckpointChoice read_checkpoint_choice(const std::string& ckpt_path);

/// The checkpoint that was saved last, or the best one that the newest checkpoints name, in the first of these folders that has
/// such. Of several ModelCheckpoints the first one with a monitor says what is best; that there were others is told. Damaged
/// files are passed over, with a warning. Throws ConfigError that names the folders when there is none.
std::filesystem::path find_checkpoint(const std::vector<std::filesystem::path>& folders, const std::string& which);

/// "epoch 3, step 40, val_loss 0.123": what a checkpoint is of; the score where a ModelCheckpoint had one for this very file.
std::string checkpoint_summary(const Checkpoint& checkpoint);

}  // namespace levin
