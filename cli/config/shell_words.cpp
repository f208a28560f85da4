#include "levin/cli/config/shell_words.h"

#include "levin/cli/config/interpolation.h"
#include "levin/cli/config/yaml_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"

namespace levin::cli {

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

std::string as_argument(const std::string& text) {
  try {
    const Value read = read_yaml_argument("command line", text);
    if (read == Value(text) && escaped(read) == read) return text;
  } catch (const ConfigError&) {
  }
  return scalar_text(escaped(Value(text)));
}

std::string resume_command(const std::vector<std::string>& typed, const std::filesystem::path& checkpoint, bool has_init_from) {
  const std::string kOption = "--ckpt_path";
  const std::string kInitFrom = "--init_from";
  const std::vector<std::string> words = without_secrets(typed);
  std::vector<std::string> command;
  for (std::size_t index = 0; index < words.size(); ++index) {
    const std::string& word = words[index];
    if (word == kOption || word == kInitFrom) {
      ++index;  // its value
    } else if (!word.starts_with(kOption + "=") && !word.starts_with(kInitFrom + "=")) {
      command.push_back(shell_quoted(word));
    }
  }
  command.push_back(shell_quoted(kOption + "=" + as_argument(checkpoint.string())));
  if (has_init_from) command.push_back(kInitFrom + "=null");
  return join(command, " ");
}

}  // namespace levin::cli
