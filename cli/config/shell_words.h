#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace levin::cli {

/// The command line to type so that a run resumes from a checkpoint: the words of the one that started it, quoted for a shell,
/// with this `--ckpt_path` instead of the one that they may have, and without weights to begin with. Secrets are masked.
std::string resume_command(const std::vector<std::string>& typed, const std::filesystem::path& checkpoint,
                           bool has_init_from = false);

/// A word as a shell reads it.
std::string shell_quoted(const std::string& word);
/// What an option's value is read as, so that it is this text.
std::string as_argument(const std::string& text);

}  // namespace levin::cli
