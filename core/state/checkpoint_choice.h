#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"

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

/// Where a run's folder has its checkpoints: a ModelCheckpoint without `dirpath` writes below it, one with `dirpath` into it.
std::vector<std::filesystem::path> checkpoint_folders_of(const std::filesystem::path& run);

/// "epoch 3, step 40, val_loss 0.123": the origin of a checkpoint, with the score if a ModelCheckpoint had one for this file.
std::string checkpoint_summary(const Checkpoint& checkpoint);

/// The first value that `read` gives for one of these files. Damaged files are skipped: a warning names `sought`.
std::optional<std::string> first_of_undamaged(
    const std::vector<std::filesystem::path>& files, const std::string& sought,
    const std::function<std::optional<std::string>(const std::filesystem::path&)>& read);
/// For first_of_undamaged(): the name of a checkpoint. Throws IoError if it is damaged.
std::optional<std::string> name_of_undamaged(const std::filesystem::path& file);

}  // namespace levin
