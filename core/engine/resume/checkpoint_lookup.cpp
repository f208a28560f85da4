#include "levin/core/engine/resume/checkpoint_lookup.h"

#include <algorithm>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/files/paths.h"
#include "levin/core/formats/tensor_file.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    std::error_code gone;
    const fs::file_time_type written = entry->last_write_time(gone);
    if (!gone && entry->path().extension() == ".ckpt") found.emplace_back(written, entry->path());
  }
  std::sort(found.rbegin(), found.rend());
  std::vector<fs::path> files;
  for (auto& [written, file] : found) files.push_back(std::move(file));
  return files;
}

struct Decision {
  std::string monitor;  ///< empty: none
  fs::path best;
};

std::string text_at(const Value& state, std::string_view key) {
  const Value* text = state.find(key);
  return text != nullptr && text->is_string() ? text->as_string() : "";
}

/// What a checkpoint's callbacks have kept, by key.
const Value::Map& states_in(const Value& manifest) {
  static const Value::Map none;
  const Value* callbacks = manifest.find("callbacks");
  return callbacks != nullptr && callbacks->is_map() ? callbacks->as_map() : none;
}

/// Those of all ModelCheckpoints of the run, in the order of its callbacks; with a monitor first.
std::vector<Decision> decisions_in(const Value& manifest) {
  std::vector<Decision> decisions;
  for (const auto& [key, state] : states_in(manifest)) {
    if (const std::string best = text_at(state, "best_model_path"); !best.empty()) {
      decisions.push_back({text_at(state, "monitor"), best});
    }
  }
  std::stable_partition(decisions.begin(), decisions.end(), [](const Decision& one) { return !one.monitor.empty(); });
  return decisions;
}

std::optional<std::string> best_named_in(const fs::path& file) {
  const std::vector<Decision> decisions = decisions_in(Checkpoint::load_manifest(file));
  if (decisions.empty()) return std::nullopt;
  fs::path best = decisions.front().best;
  // A run's folder may have been moved since.
  if (const fs::path beside = file.parent_path() / best.filename(); !is_there(best) && is_there(beside)) best = beside;
  if (!is_there(best)) return std::nullopt;
  std::vector<std::string> others;
  for (const Decision& other : decisions) {
    if (!other.monitor.empty() && other.monitor != decisions.front().monitor) others.push_back(other.monitor);
  }
  if (!others.empty()) {
    rank_zero_warn(
        format("ckpt_path: best is the best by {}, which the run's first ModelCheckpoint monitors; the run also monitors {}, "
               "for whose best give the file.",
               decisions.front().monitor, join(others)));
  }
  return best.string();
}

/// "val_loss 0.123" of the ModelCheckpoint that wrote this checkpoint; "" without a monitor.
std::string score_of(const Checkpoint& checkpoint) {
  for (const auto& [key, state] : states_in(checkpoint.manifest)) {
    const Value* scores = state.find("best_k_models");
    const Value* score = scores == nullptr ? nullptr : scores->find(text_at(state, "saved_as"));
    if (score != nullptr && score->is_number()) return format("{} {:.4g}", text_at(state, "monitor"), score->as_double());
  }
  return "";
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::optional<std::string> when_whole(const fs::path& file) {
  Checkpoint::load(file);
  return file.string();
}

std::optional<std::string> first_in_whole(const std::vector<fs::path>& files, const std::string& sought,
                                          const std::function<std::optional<std::string>(const fs::path&)>& look) {
  for (const fs::path& file : files) {
    try {
      if (auto found = look(file)) return found;
    } catch (const IoError& error) {
      rank_zero_warn(format("Skipping a damaged checkpoint while looking for {}: {}", sought, error.what()));
    }
  }
  return std::nullopt;
}

CheckpointChoice read_checkpoint_choice(const std::string& ckpt_path) {
  if (ckpt_path.empty()) throw ConfigError("ckpt_path: it is empty; give a file, the folder of a run, best or last.");
  if (ckpt_path == "best" || ckpt_path == "last") return {{}, ckpt_path};
  if (TensorFile::is_model_folder(ckpt_path)) return {ckpt_path, ""};
  std::error_code ignored;
  if (fs::is_directory(ckpt_path, ignored)) return {ckpt_path, "last"};
  if (is_there(ckpt_path)) return {ckpt_path, ""};
  const std::size_t colon = ckpt_path.rfind(':');
  const std::string which = colon == std::string::npos ? "" : ckpt_path.substr(colon + 1);
  if (which != "best" && which != "last")
    throw ConfigError(format("ckpt_path: there is no file '{}'{}.", ckpt_path, working_folder_of(ckpt_path)));
  const std::string folder = ckpt_path.substr(0, colon);
  if (!fs::is_directory(folder, ignored))
    throw ConfigError(format("ckpt_path: there is no folder '{}' of a run{}.", folder, working_folder_of(folder)));
  return {folder, which};
}

fs::path find_checkpoint(const std::vector<fs::path>& folders, const std::string& which) {
  for (const fs::path& folder : folders) {
    // The newest file knows best; an older one does when that is of no ModelCheckpoint.
    const auto found = first_in_whole(checkpoints_in(folder), "'" + which + "'", which == "best" ? best_named_in : when_whole);
    if (found) return *found;
  }
  throw ConfigError(
      format("ckpt_path: '{}' needs a run with checkpoints, and there is none in {}. Give the file, or the folder of a run "
             "(--ckpt_path=logs/version_3:{}).",
             which,
             folders.empty() ? "any folder"
                             : join(folders, ", ", [](const fs::path& folder) { return fs::absolute(folder).string(); }),
             which));
}

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
