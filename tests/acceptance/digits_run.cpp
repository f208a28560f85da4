#include "acceptance/digits_run.h"

namespace levin::test {

namespace fs = std::filesystem;

std::string levin_program() { return LEVIN_BINARY_DIR "/bin/levin"; }

std::string loaded_levin_program() { return LEVIN_BINARY_DIR "/bin/loaded_levin"; }

std::string digits_config() { return LEVIN_SOURCE_DIR "/examples/digits/config.yaml"; }

Outcome levin(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), loaded_levin_program());
  // One thread a rank: results do not depend on the machine, and several ranks do not fight for its cores.
  return run({.arguments = std::move(arguments), .environment = {{"OMP_NUM_THREADS", "1"}}, .copied = true});
}

Outcome digits(const std::string& command, const fs::path& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {command, "--config", digits_config(), "--trainer.default_root_dir=" + folder.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return levin(arguments);
}

std::vector<std::string> saving_fit(const fs::path& folder, const std::string& checkpoint_options,
                                    const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      loaded_levin_program(),
      "fit",
      "--config",
      digits_config(),
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

fs::path version_folder(const fs::path& folder, int version) {
  return folder / "logs" / ("version_" + std::to_string(version));
}

}  // namespace levin::test
