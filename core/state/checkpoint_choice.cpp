#include "levin/core/state/checkpoint_choice.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/saved_checkpoints.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/files/remote_file.h"
#include "levin/core/formats/tensor_file.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

/// The best file of the run's callbacks, in their order; those with a monitor first.
std::optional<std::string> best_named_in(const fs::path& file) {
  std::vector<SavedCheckpoints> saved = SavedCheckpoints::read_all(Checkpoint::load_manifest(file));
  std::erase_if(saved, [](const SavedCheckpoints& one) { return one.best_model_path.empty(); });
  std::stable_partition(saved.begin(), saved.end(), [](const SavedCheckpoints& one) { return !one.monitor.empty(); });
  if (saved.empty()) return std::nullopt;
  fs::path best = saved.front().best_model_path;
  // The run's folder may have been moved since.
  if (const fs::path moved = file.parent_path() / best.filename(); !is_there(best) && is_there(moved)) best = moved;
  if (!is_there(best)) return std::nullopt;
  std::vector<std::string> monitors;
  for (const SavedCheckpoints& one : saved) monitors.push_back(one.monitor);
  warn_of_other_monitors(monitors);
  return best.string();
}

/// "val_loss 0.123", as the callback that wrote this checkpoint knew it; "" without a monitor.
std::string score_of(const Checkpoint& checkpoint) {
  for (const SavedCheckpoints& saved : SavedCheckpoints::read_all(checkpoint.manifest)) {
    const auto score = saved.best_k_models.find(saved.saved_as);
    if (score != saved.best_k_models.end()) return saved.score_text(score->second);
  }
  return "";
}

}  // namespace

std::optional<std::string> name_of_undamaged(const fs::path& file) {
  Checkpoint::load(file);
  return file.string();
}

std::optional<std::string> first_of_undamaged(const std::vector<fs::path>& files, const std::string& sought,
                                              const std::function<std::optional<std::string>(const fs::path&)>& read) {
  for (const fs::path& file : files) {
    try {
      if (auto found = read(file)) return found;
    } catch (const IoError& error) {
      rank_zero_warn(format("Skipping a damaged checkpoint while looking for {}: {}", sought, error.what()));
    }
  }
  return std::nullopt;
}

void warn_of_other_monitors(const std::vector<std::string>& monitors) {
  std::vector<std::string> others;
  for (const std::string& other : monitors) {
    if (!other.empty() && other != monitors.front()) others.push_back(other);
  }
  if (others.empty()) return;
  rank_zero_warn(
      format("ckpt_path: best is the best by {}, which the run's first ModelCheckpoint monitors; the run also monitors {}, for "
             "whose best give the file.",
             monitors.front(), join(others)));
}

CheckpointChoice read_checkpoint_choice(const std::string& ckpt_path) {
  if (ckpt_path.empty()) throw ConfigError("ckpt_path: it is empty; give a file, the folder of a run, best or last.");
  if (ckpt_path == "best" || ckpt_path == "last") return {{}, ckpt_path};
  if (TensorFile::is_model_folder(ckpt_path)) return {ckpt_path, ""};
  std::error_code ignored;
  if (fs::is_directory(ckpt_path, ignored)) return {ckpt_path, "last"};
  const std::size_t colon = ckpt_path.rfind(':');
  const std::string which = colon == std::string::npos ? "" : ckpt_path.substr(colon + 1);
  const bool names_which = which == "best" || which == "last";
  // A bucket has no folders, only names with slashes.
  if (is_remote(ckpt_path) && !names_which && fs::path(ckpt_path).extension().empty()) return {ckpt_path, "last"};
  if (is_remote(ckpt_path) && !names_which) return {ckpt_path, ""};
  if (!is_remote(ckpt_path) && is_there(ckpt_path)) return {ckpt_path, ""};
  if (!names_which) throw ConfigError(format("ckpt_path: there is no file '{}'{}.", ckpt_path, working_folder_of(ckpt_path)));
  const std::string folder = ckpt_path.substr(0, colon);
  if (!is_remote(folder) && !fs::is_directory(folder, ignored))
    throw ConfigError(format("ckpt_path: there is no folder '{}' of a run{}.", folder, working_folder_of(folder)));
  return {folder, which};
}

fs::path find_checkpoint(const std::vector<fs::path>& folders, const std::string& which) {
  for (const fs::path& folder : folders) {
    std::vector<fs::path> files = newest_files_at(folder, ".ckpt");
    // `levin export --to lightning` writes them there.
    std::erase_if(files, [](const fs::path& file) { return file.native().ends_with(file_ending(ExportFormat::kLightning)); });
    // The newest file is the most reliable; an older one is read if no ModelCheckpoint wrote the newest.
    const auto found = first_of_undamaged(files, "'" + which + "'", which == "best" ? best_named_in : name_of_undamaged);
    if (found) return *found;
  }
  throw ConfigError(
      format("ckpt_path: '{}' needs a run with checkpoints, and there is none in {}. Give the file, or the folder of a run "
             "(--ckpt_path=logs/version_3:{}).",
             which,
             folders.empty() ? "any folder"
                             : join(folders, ", ", [](const fs::path& folder) { return absolute_place(folder).string(); }),
             which));
}

std::vector<fs::path> checkpoint_folders_of(const fs::path& run) { return {run / "checkpoints", run}; }

std::string checkpoint_summary(const Checkpoint& checkpoint) {
  std::vector<std::string> parts;
  for (const auto& [key, name] : {std::pair("epoch", "epoch"), std::pair("global_step", "step")}) {
    const Value* number = checkpoint.manifest.find(key);
    if (number != nullptr && number->is_int()) parts.push_back(format("{} {}", name, number->as_int()));
  }
  if (const std::string score = score_of(checkpoint); !score.empty()) parts.push_back(score);
  return join(parts);
}

}  // namespace levin
