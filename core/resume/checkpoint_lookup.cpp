#include "levin/core/resume/checkpoint_lookup.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "levin/core/checkpoint/checkpoint.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"

namespace levin {

namespace {

namespace fs = std::filesystem;

struct Found {
  fs::path file;
  fs::file_time_type written;
};

std::vector<Found> checkpoints_below(const fs::path& root) {
  std::vector<Found> found;
  std::error_code ignored;
  for (auto entry = fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied, ignored);
       entry != fs::recursive_directory_iterator(); entry.increment(ignored)) {
    const bool in_folder = entry->path().parent_path().filename() == "checkpoints";
    if (in_folder && entry->path().extension() == ".ckpt") found.push_back({entry->path(), entry->last_write_time(ignored)});
  }
  std::sort(found.begin(), found.end(), [](const Found& left, const Found& right) { return left.written > right.written; });
  return found;
}

std::optional<fs::path> best_named_in(const Checkpoint& checkpoint) {
  const Value* callbacks = checkpoint.manifest.find("callbacks");
  if (callbacks == nullptr || !callbacks->is_map()) return std::nullopt;
  for (const auto& [key, state] : callbacks->as_map()) {
    const Value* best = state.find("best_model_path");
    if (best != nullptr && best->is_string() && fs::exists(best->as_string())) return best->as_string();
  }
  return std::nullopt;
}

}  // namespace

fs::path find_checkpoint(const fs::path& root, const std::string& alias) {
  for (const Found& candidate : checkpoints_below(root)) {
    try {
      const Checkpoint checkpoint = Checkpoint::load(candidate.file);
      if (alias == "last") return candidate.file;
      // The newest file of the newest run knows best; files that another run left name that run's best.
      if (const auto best = best_named_in(checkpoint)) return *best;
    } catch (const IoError& error) {
      rank_zero_warn(std::string("Skipping a damaged checkpoint while looking for '") + alias + "': " + error.what());
    }
  }
  throw ConfigError("ckpt_path: '" + alias + "' needs a run with checkpoints, and there is none below " + root.string() +
                    ". Give the file, or the run's --trainer.default_root_dir.");
}

}  // namespace levin
