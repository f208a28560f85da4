#include "levin/cli/config/environment_sources.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/override.h"
#include "levin/cli/config/run_config.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/core/trainer_options.h"

namespace levin::cli {
namespace {

constexpr std::string_view kPrefix = "LEVIN_";
constexpr const char* kDefaultFile = "levin.yaml";
constexpr const char* kProjectFile = "config.yaml";

std::string option_name(std::string part) {
  const auto is_lower = [](unsigned char letter) { return std::islower(letter) != 0; };
  if (std::any_of(part.begin(), part.end(), is_lower)) return part;
  return lowercase(std::move(part));
}

/// LEVIN_TRAINER_MAX_EPOCHS is not taken for LEVIN_TRAINER__MAX_EPOCHS, since other variables may begin so as well.
void warn_of_one_underscore(const std::string& name, const std::string& key) {
  constexpr std::string_view kSection = "trainer_";
  if (!key.starts_with(kSection)) return;
  const std::string option = key.substr(kSection.size());
  if (!is_among(names_of(describe_options<TrainerOptions>()), option)) return;
  rank_zero_warn(format("The variable {} is not used: LEVIN_TRAINER__{}, with two underscores, is trainer.{}.", name,
                        name.substr(kPrefix.size() + kSection.size()), option));
}

/// The variables of this process whose names begin with LEVIN_.
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

std::vector<ConfigSource> environment_sources(const std::string& command) {
  std::vector<ConfigSource> sources, of_command;
  std::error_code ignored;
  const char* const default_file = std::getenv("LEVIN_DEFAULT_CONFIG");
  if (default_file != nullptr ? *default_file != '\0' : std::filesystem::exists(kDefaultFile, ignored))
    sources.push_back(ConfigFile{default_file != nullptr ? default_file : kDefaultFile});
  if (const char* const file = std::getenv("LEVIN_CONFIG")) sources.push_back(ConfigFile{file});
  for (const auto& [name, text] : levin_variables()) {
    std::vector<std::string> parts = split(std::string_view(name).substr(kPrefix.size()), "__");
    std::transform(parts.begin(), parts.end(), parts.begin(), option_name);
    const bool names_command = parts.size() > 1 && is_among(run_command_names(), parts.front());
    if (names_command && parts.front() != command) continue;
    if (names_command) parts.erase(parts.begin());
    const Override given{.key = join(parts, "."), .text = text, .variable = name};
    if (is_among(section_names(), parts.front())) {
      (names_command ? of_command : sources).push_back(given);
    } else if (parts.size() == 1 && !names_command) {
      warn_of_one_underscore(name, parts.front());
    } else {
      throw ConfigError(Mark{given.name()}, format("there is no section {}{}", quoted_text(parts.front()),
                                                   did_you_mean(parts.front(), section_names(), "sections")));
    }
  }
  sources.insert(sources.end(), of_command.begin(), of_command.end());
  return sources;
}

bool names_model(const ConfigSource& source) {
  const auto* given = std::get_if<Override>(&source);
  return given == nullptr || given->key == "model" || given->key == "model.class_path";
}

}  // namespace

void add_environment(CommandLine& line) {
  if (!line.output.empty()) return;
  std::vector<ConfigSource> sources = environment_sources(line.configured_as());
  const auto is_named_again = [&](const ConfigSource& source) {
    const auto* file = std::get_if<ConfigFile>(&source);
    return file != nullptr && std::find(line.sources.begin(), line.sources.end(), source) != line.sources.end();
  };
  std::erase_if(sources, is_named_again);
  line.sources.insert(line.sources.begin(), sources.begin(), sources.end());
  line.environment_sources = sources.size();
  std::error_code ignored;
  const bool runs = line.command == "tune" || is_among(run_command_names(), line.configured_as());
  line.has_project_file = runs && std::none_of(line.sources.begin(), line.sources.end(), names_model) &&
                          std::filesystem::is_regular_file(kProjectFile, ignored);
  if (!line.has_project_file) return;
  line.sources.insert(line.sources.begin() + std::ssize(sources), ConfigFile{kProjectFile});
  ++line.environment_sources;
}

}  // namespace levin::cli
