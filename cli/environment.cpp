#include "levin/cli/environment.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "levin/cli/run_config.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/trainer_options.h"

namespace levin::cli {
namespace {

constexpr std::string_view kPrefix = "LEVIN_";
constexpr std::string_view kDefaultFile = "levin.yaml";

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string option_name(std::string part) {
  const auto is_lower = [](unsigned char letter) { return std::islower(letter) != 0; };
  if (std::any_of(part.begin(), part.end(), is_lower)) return part;
  std::transform(part.begin(), part.end(), part.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return part;
}

/// "TRAINER__MAX_EPOCHS" as {"trainer", "max_epochs"}.
std::vector<std::string> key_parts(const std::string& name) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = 0; end != std::string::npos; begin = end + 2) {
    end = name.find("__", begin);
    parts.push_back(option_name(name.substr(begin, end == std::string::npos ? end : end - begin)));
  }
  return parts;
}

struct Variable {
  Override given;
  bool for_this_command = false;  ///< rather than for all
};

/// LEVIN_TRAINER_MAX_EPOCHS is not taken for LEVIN_TRAINER__MAX_EPOCHS, since other variables may begin so as well.
void warn_of_one_underscore(const std::string& name, const std::string& key) {
  constexpr std::string_view kSection = "trainer_";
  if (!key.starts_with(kSection)) return;
  const std::string option = key.substr(kSection.size());
  const std::vector<OptionInfo> flags = describe_options<TrainerOptions>();
  if (std::none_of(flags.begin(), flags.end(), [&](const OptionInfo& flag) { return flag.name == option; })) return;
  rank_zero_warn(format("The variable {} is not used: LEVIN_TRAINER__{}, with two underscores, is trainer.{}.", name,
                        name.substr(kPrefix.size() + kSection.size()), option));
}

/// Nothing for a variable that has another meaning, or is for another command.
std::optional<Variable> read_variable(const std::string& name, const std::string& text, const std::string& command) {
  std::vector<std::string> parts = key_parts(name.substr(kPrefix.size()));
  Variable variable{{.key = "", .text = text, .variable = name}};
  if (parts.size() > 1 && is_among(run_command_names(), parts.front())) {
    if (parts.front() != command) return std::nullopt;
    variable.for_this_command = true;
    parts.erase(parts.begin());
  }
  if (!is_among(section_names(), parts.front())) {
    if (parts.size() == 1 && !variable.for_this_command) {
      warn_of_one_underscore(name, parts.front());
      return std::nullopt;
    }
    throw ConfigError(Mark{variable.given.name()}, format("there is no section {}{}", quoted_text(parts.front()),
                                                          did_you_mean(parts.front(), section_names(), "sections")));
  }
  for (const std::string& part : parts) variable.given.key += (variable.given.key.empty() ? "" : ".") + part;
  return variable;
}

std::optional<std::string> default_file(const std::map<std::string, std::string>& variables) {
  const auto named = variables.find("LEVIN_DEFAULT_CONFIG");
  if (named != variables.end()) return named->second.empty() ? std::nullopt : std::optional(named->second);
  std::error_code ignored;
  if (!std::filesystem::exists(kDefaultFile, ignored)) return std::nullopt;
  return std::string(kDefaultFile);
}

}  // namespace

std::map<std::string, std::string> levin_variables() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (text.starts_with(kPrefix) && equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

std::vector<ConfigSource> environment_sources(const std::string& command, const std::map<std::string, std::string>& variables) {
  std::vector<ConfigSource> sources, of_command;
  if (const auto file = default_file(variables)) sources.push_back(ConfigFile{*file});
  if (const auto named = variables.find("LEVIN_CONFIG"); named != variables.end()) sources.push_back(ConfigFile{named->second});
  for (const auto& [name, text] : variables) {
    std::optional<Variable> variable = read_variable(name, text, command);
    if (variable) (variable->for_this_command ? of_command : sources).push_back(std::move(variable->given));
  }
  sources.insert(sources.end(), of_command.begin(), of_command.end());
  return sources;
}

void add_environment(CommandLine& line) {
  if (!line.output.empty()) return;
  std::vector<ConfigSource> sources = environment_sources(line.command);
  const auto is_named_again = [&](const ConfigSource& source) {
    const auto* file = std::get_if<ConfigFile>(&source);
    return file != nullptr && std::find(line.sources.begin(), line.sources.end(), source) != line.sources.end();
  };
  std::erase_if(sources, is_named_again);
  line.sources.insert(line.sources.begin(), sources.begin(), sources.end());
}

}  // namespace levin::cli
