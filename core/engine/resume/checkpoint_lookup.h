#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"

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
std::filesystem::path find_checkpoint(const std::vector<std::filesystem::path>& folders, const std::string& which);

/// What `look` gives for the first of these files for which it does. Damaged files are passed over: a warning names `sought`.
std::optional<std::string> first_in_whole(const std::vector<std::filesystem::path>& files, const std::string& sought,
                                          const std::function<std::optional<std::string>(const std::filesystem::path&)>& look);
/// The name of a checkpoint. Throws IoError where it is damaged.
std::optional<std::string> when_whole(const std::filesystem::path& file);

/// What cannot be looked at counts as not there: opening it says why.
bool is_there(const std::filesystem::path& path);

/// "epoch 3, step 40, val_loss 0.123": what a checkpoint is of; the score where a ModelCheckpoint had one for this very file.
std::string checkpoint_summary(const Checkpoint& checkpoint);

}  // namespace levin
