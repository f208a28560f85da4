#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/program.h"

namespace levin::test {

/// For a Command that is `copied`: the program and arguments of `levin fit` on digits, small and silent, with a ModelCheckpoint
/// of these options (of a YAML map) in FOLDER/kept.
inline std::vector<std::string> saving_fit(const std::filesystem::path& folder, const std::string& checkpoint_options,
                                           const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      LEVIN_BINARY_DIR "/bin/loaded_levin",
      "fit",
      "--config",
      LEVIN_SOURCE_DIR "/examples/digits/config.yaml",
      "--trainer.default_root_dir=" + folder.string(),
      "--trainer.accelerator=cpu",
      "--trainer.enable_progress_bar=false",
      "--trainer.logger=false",
      "--model.init_args.channels=4",
      "--trainer.callbacks=[{class_path: ModelCheckpoint, init_args: {enable_version_counter: false, dirpath: " +
          (folder / "kept").string() + ", " + checkpoint_options + "}}]"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace levin::test
