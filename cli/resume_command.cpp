#include "levin/cli/resume_command.h"

#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

}  // namespace

std::string resume_command(const std::vector<std::string>& words, const std::filesystem::path& checkpoint, bool has_init_from) {
  const std::string kOption = "--ckpt_path";
  const std::string kInitFrom = "--init_from";
  std::vector<std::string> command;
  for (std::size_t index = 0; index < words.size(); ++index) {
    const std::string& word = words[index];
    if (word == kOption || word == kInitFrom) {
      ++index;  // its value
    } else if (!word.starts_with(kOption + "=") && !word.starts_with(kInitFrom + "=")) {
      command.push_back(shell_quoted(word));
    }
  }
  command.push_back(shell_quoted(kOption + "=" + checkpoint.string()));
  if (has_init_from) command.push_back(kInitFrom + "=null");
  return join(command, " ");
}

}  // namespace levin::cli
