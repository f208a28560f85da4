#include "levin/core/config/saved_checkpoints.h"

#include "levin/core/base/format.h"

namespace levin {

SavedCheckpoints SavedCheckpoints::read(const Value& state) {
  SavedCheckpoints saved;
  const auto read_text = [&](const char* key, std::string& text) {
    const Value* const found = state.find(key);
    if (found != nullptr && found->is_string()) text = found->as_string();
  };
  read_text("monitor", saved.monitor);
  read_text("best_model_path", saved.best_model_path);
  read_text("last_model_path", saved.last_model_path);
  read_text("saved_as", saved.saved_as);
  const Value* const score = state.find("best_model_score");
  if (score != nullptr && score->is_number()) saved.best_model_score = score->as_double();
  const Value* const files = state.find("best_k_models");
  if (files == nullptr || !files->is_map()) return saved;
  for (const auto& [file, score_of_file] : files->as_map()) {
    if (score_of_file.is_number()) saved.best_k_models[file] = score_of_file.as_double();
  }
  return saved;
}

std::vector<SavedCheckpoints> SavedCheckpoints::read_all(const Value& manifest) {
  std::vector<SavedCheckpoints> all;
  const Value* const callbacks = manifest.find("callbacks");
  if (callbacks == nullptr || !callbacks->is_map()) return all;
  for (const auto& [key, state] : callbacks->as_map()) all.push_back(read(state));
  return all;
}

std::string SavedCheckpoints::score_text(std::optional<double> score) const {
  return score && !monitor.empty() ? format("{} {:.4g}", monitor, *score) : "";
}

}  // namespace levin
