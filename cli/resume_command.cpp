#include "levin/cli/resume_command.h"

#include "levin/core/base/join.h"

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

std::string resume_command(const std::vector<std::string>& words, const std::filesystem::path& checkpoint) {
  constexpr std::string_view kOption = "--ckpt_path";
  std::vector<std::string> command;
  for (std::size_t index = 0; index < words.size(); ++index) {
    if (words[index] == kOption) {
      ++index;  // its value
    } else if (!words[index].starts_with(std::string(kOption) + "=")) {
      command.push_back(shell_quoted(words[index]));
    }
  }
  command.push_back(shell_quoted(std::string(kOption) + "=" + checkpoint.string()));
  return join(command, " ");
}

}  // namespace levin::cli
