#include "levin/cli/commands/torch/fit_summary.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "levin/cli/config/shell_words.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/callback.h"
#include "levin/core/config/saved_checkpoints.h"
#include "levin/core/console/terminal.h"
#include "levin/core/files/paths.h"
#include "levin/core/logger.h"
#include "levin/core/trainer.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

struct ShownCheckpoint {
  fs::path file;
  std::string score;  ///< "val_loss 0.25"; empty: nothing was monitored
};

/// The checkpoint that a callback saved as the best one, or the newest.
std::optional<ShownCheckpoint> checkpoint_of(const Callback& callback) {
  if (!callback.saves_state()) return std::nullopt;
  const SavedCheckpoints saved = SavedCheckpoints::read(callback.state_dict());
  const bool has_best = !saved.best_model_path.empty();
  const fs::path file = has_best ? saved.best_model_path : saved.last_model_path;
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return std::nullopt;
  return ShownCheckpoint{file, has_best ? saved.score_text(saved.best_model_score) : ""};
}

/// Of the first callback that has a score, else of the first that saved one.
std::optional<ShownCheckpoint> best_of(const Trainer& trainer) {
  std::optional<ShownCheckpoint> first;
  for (const auto& callback : trainer.callbacks()) {
    const std::optional<ShownCheckpoint> saved = checkpoint_of(*callback);
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
  const std::optional<ShownCheckpoint> saved = best_of(trainer);
  if (!saved) return text;
  return format("{}\n{} checkpoint: {}{}\nnext: {}", text, saved->score.empty() ? "newest" : "best", as_typed(saved->file),
                saved->score.empty() ? "" : format(" ({})", saved->score), test_command(line, config, saved->file));
}

}  // namespace levin::cli
