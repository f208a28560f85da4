#include "levin/cli/commands/torch/fit_summary.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "levin/cli/config/shell_words.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/callback.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/paths.h"
#include "levin/core/logger.h"
#include "levin/core/trainer.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

/// A checkpoint that a callback saved, as its state has it.
struct SavedCheckpoint {
  fs::path file;
  std::string score;  ///< "val_loss 0.25"; empty: nothing was monitored
};

/// What a ModelCheckpoint, or another callback with such a state, saved as the best one, or the newest.
std::optional<SavedCheckpoint> checkpoint_of(const Callback& callback) {
  if (!callback.saves_state()) return std::nullopt;
  const Value state = callback.state_dict();
  const auto text = [&](const char* key) {
    const Value* const found = state.find(key);
    return found != nullptr && found->is_string() ? found->as_string() : "";
  };
  const std::string best = text("best_model_path");
  const fs::path file = best.empty() ? text("last_model_path") : best;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  const Value* const score = state.find("best_model_score");
  const bool is_scored = !best.empty() && !text("monitor").empty() && score != nullptr && score->is_number();
  return SavedCheckpoint{file, is_scored ? format("{} {:.4g}", text("monitor"), score->as_double()) : ""};
}

/// Of the first callback that has a score, else of the first that saved one.
std::optional<SavedCheckpoint> best_of(const Trainer& trainer) {
  std::optional<SavedCheckpoint> first;
  for (const auto& callback : trainer.callbacks()) {
    const std::optional<SavedCheckpoint> saved = checkpoint_of(*callback);
    if (saved && !saved->score.empty()) return saved;
    if (saved && !first) first = saved;
  }
  return first;
}

/// What of the command line has to be given again, since no file has it.
std::vector<std::string> secret_words(const std::vector<std::string>& words) {
  std::vector<std::string> secrets;
  for (const std::string& word : words) {
    if (without_secrets(word) != word) secrets.push_back(word);
  }
  return secrets;
}

/// The same words, of another command.
std::string test_command(const CommandLine& line, const fs::path& config, const fs::path& checkpoint) {
  std::vector<std::string> words = line.words;
  std::ranges::replace(words, line.command, std::string("test"));
  if (!config.empty()) {
    words = {line.words.at(0), "test", "--config", as_typed(config)};
    const std::vector<std::string> secrets = secret_words(line.words);
    words.insert(words.end(), secrets.begin(), secrets.end());
  }
  return resume_command(words, as_typed(checkpoint));
}

}  // namespace

std::string fit_summary(const Trainer& trainer, const CommandLine& line, const fs::path& config, double seconds) {
  constexpr double kMinute = 60;
  std::string text = "fit took " + (seconds < kMinute ? format("{:.2f} s", seconds) : duration_text(seconds));
  for (const auto& logger : trainer.loggers()) {
    if (logger->log_dir().empty()) continue;
    text += format("; folder: {}", as_typed(logger->log_dir()));
    break;
  }
  const std::optional<SavedCheckpoint> saved = best_of(trainer);
  if (!saved) return text;
  return format("{}\n{} checkpoint: {}{}\nnext: {}", text, saved->score.empty() ? "newest" : "best", as_typed(saved->file),
                saved->score.empty() ? "" : format(" ({})", saved->score), test_command(line, config, saved->file));
}

}  // namespace levin::cli
