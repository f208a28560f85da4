#include "levin/cli/command_line.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <sstream>

#include "levin/cli/command_walk.h"
#include "levin/cli/config_file.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/cli/run_config.h"
#include "levin/cli/yaml_reader.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/secrets.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/console/console.h"
#include "levin/core/trainer_options.h"

namespace levin::cli {
namespace {

bool is_flag(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && !std::isdigit(static_cast<unsigned char>(argument[1])) &&
         argument[1] != '.';
}

/// Takes out of the arguments what CLI11 has no notion of: configuration files and overrides in the order they were written
/// in, plug-ins before or behind the command, and help topics. The rest is left for CLI11.
class Splitter {
 public:
  /// `command`: with its options, which it takes itself, also where a section is called so; null when none is named.
  Splitter(const std::vector<std::string>& arguments, const std::vector<std::string>& commands, const CLI::App* command,
           CommandLine& line)
      : arguments_(arguments), commands_(commands), command_(command), line_(line) {}

  std::vector<std::string> split() {
    while (next_ < arguments_.size()) {
      if (const std::string& argument = arguments_[next_++]; !take(argument)) rest_.push_back(argument);
    }
    return std::move(rest_);
  }

 private:
  bool take(const std::string& argument) {
    const std::size_t equals = argument.find('=');
    name_ = argument.substr(0, equals);
    value_ = equals == std::string::npos ? std::nullopt : std::optional(argument.substr(equals + 1));
    if (name_ == "-config")
      throw ConfigError(Mark{"command line"}, format("unknown option '{}'; did you mean '-{}'?", argument, argument));
    if (name_ == "--plugin") {
      line_.plugins.push_back(value("FILE"));
    } else if (name_ == "--config" || argument.starts_with("-c")) {
      line_.sources.push_back(ConfigFile{name_ == "--config" || name_ == "-c" ? value("FILE") : argument.substr(2)});
    } else {
      return take_help() || take_override();
    }
    return true;
  }

  bool take_help() {
    const bool is_help = name_ == "--help" || (name_ == "-h" && !value_);
    if (!is_help || (!value_ && (!has_word() || is_among(commands_, arguments_[next_])))) return false;
    line_.help_topic = value_ ? *value_ : arguments_[next_++];
    return true;
  }

  bool take_override() {
    if (!name_.starts_with("--")) return false;
    if (command_ != nullptr && command_->get_option_no_throw(name_) != nullptr) return false;
    std::string key = name_.substr(2);
    const bool append = key.ends_with('+');
    if (append) key.pop_back();
    // What the launcher is told is not the run's own, and may be said without its section.
    if (key == "max_restarts" || key == "min_devices") key.insert(0, "trainer.");
    if (!is_among(section_names(), key.substr(0, key.find('.')))) return false;
    if (key.ends_with(".help")) {
      const std::string name = value_ ? *value_ : has_word() ? arguments_[next_++] : "";
      line_.help_topic = name.empty() ? key.substr(0, key.size() - 5) : name;
      return true;
    }
    std::string text = value("VALUE");
    if (key == "ckpt_path" && text.empty()) {
      throw ConfigError(
          Mark{"command line: --ckpt_path"},
          "it is empty (is a variable of the shell unset?); give a file, the folder of a run, best, last or null");
    }
    line_.sources.push_back(Override{std::move(key), std::move(text), append});
    return true;
  }

  /// Behind an option stands what may belong to it.
  bool has_word() const { return next_ < arguments_.size() && !is_flag(arguments_[next_]); }

  /// The option's value, behind it or as NAME=VALUE.
  std::string value(const std::string& what) {
    if (value_) return *value_;
    if (!has_word()) throw ConfigError(Mark{"command line: " + name_}, format("needs a value: {}={}", name_, what));
    return arguments_[next_++];
  }

  const std::vector<std::string>& arguments_;
  const std::vector<std::string>& commands_;
  const CLI::App* command_;
  CommandLine& line_;
  std::size_t next_ = 0;
  std::string name_;                  ///< of the argument in work, up to its '='
  std::optional<std::string> value_;  ///< what follows that
  std::vector<std::string> rest_;
};

/// The configuration with what the command line does not name: the environment and the folder's config.yaml.
Value whole_config(CommandLine line) {
  try {
    add_environment(line);
  } catch (const ConfigError&) {
    // It is told when the options are right.
  }
  return config_as_far_as_known(line);
}

/// "; did you mean '--trainer.max_epochs=3'?" for an option that is none.
std::string option_meant(const std::string& wrong, const CommandLine& line) {
  const std::size_t begin = wrong.find_first_not_of('-');
  const std::string key = wrong.substr(begin, wrong.find_first_of("=+", begin) - begin);
  const std::string value = wrong.substr(begin + key.size());
  const std::string head = key.substr(0, key.find('.'));
  for (const LightningArgument& flag : lightning_arguments_of(kTrainerFlags, "")) {
    if (flag.name == key && !flag.instead.empty()) return format(": levin has no such flag: {}", flag.instead);
  }
  std::vector<std::string> known = section_names();
  known.insert(known.end(), {"config", "plugin", "print_config", "help", "version"});
  const std::string nearest = nearest_name(head, known);
  std::vector<std::string> meant = keys_meant_by(key, whole_config(line));
  // The last part alone leads to a key of another section only where the section is no slip of one.
  const bool is_whole = head == key && !meant.empty() && edit_distance(key, meant[0].substr(meant[0].rfind('.') + 1)) == 0;
  if (!nearest.empty() && !is_whole) meant = {nearest + key.substr(head.size())};
  if (wrong == "-v") return "; did you mean '-V'?";
  if (meant.empty()) return "; sections are " + quoted_list(section_names());
  return format("; did you mean '{}'?", join(meant, "' or '", [&](const std::string& name) { return "--" + name + value; }));
}

/// "; did you mean 'fit'?" for a word that is no command of this program; other programs have it, or it is a slip.
std::string command_meant(const std::string& wrong, const std::vector<std::string>& commands) {
  static const std::map<std::string, std::string> kElsewhere = {
      {"train", "fit"},     {"run", "fit"},       {"resume", "fit --ckpt_path=last"}, {"eval", "test"},
      {"evaluate", "test"}, {"infer", "predict"}, {"version", "--version"},           {"init", "new"}};
  std::vector<std::string> known = commands;
  for (const auto& [name, meant] : kElsewhere) known.push_back(name);
  const std::string nearest = nearest_name(wrong, known);
  const auto meant = kElsewhere.find(nearest);
  return meant != kElsewhere.end() ? format("; did you mean '{}'?", meant->second) : did_you_mean(wrong, commands, "commands");
}

void check_extras(const CLI::App& app, const std::vector<std::string>& commands, CommandLine line) {
  const std::vector<std::string> extras = app.remaining(true);
  if (extras.empty()) return;
  const std::string& wrong = extras.front();
  if (!is_flag(wrong) || wrong.find_first_not_of('-') == std::string::npos) {
    const bool is_yaml = wrong.ends_with(".yaml") || wrong.ends_with(".yml");
    const bool lacks_command = app.get_subcommands().empty();
    if (lacks_command && !is_yaml)
      throw ConfigError(Mark{"command line"},
                        format("there is no command {}{}", quoted_text(wrong), command_meant(wrong, commands)));
    throw ConfigError(Mark{"command line"}, format("unexpected argument {}; {}", quoted_text(wrong),
                                                   is_yaml ? "give it with --config"
                                                           : format("levin {} --help says what there may be",
                                                                    app.get_subcommands().front()->get_name())));
  }
  if (!app.get_subcommands().empty()) line.command = app.get_subcommands().front()->get_name();
  throw ConfigError(Mark{"command line"}, format("unknown option {}{}", quoted_text(wrong), option_meant(wrong, line)));
}

constexpr std::string_view kPrefix = "LEVIN_";
constexpr const char* kDefaultFile = "levin.yaml";
constexpr const char* kProjectFile = "config.yaml";

std::string option_name(std::string part) {
  const auto is_lower = [](unsigned char letter) { return std::islower(letter) != 0; };
  if (std::any_of(part.begin(), part.end(), is_lower)) return part;
  std::transform(part.begin(), part.end(), part.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return part;
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

// Taken out by Splitter; declared for --help.
void declare_sources(CLI::App& app) {
  app.add_option("-c,--config", "YAML file; may be given several times, later ones win")->type_name("FILE");
  app.add_option("--plugin", "Library with classes of your own; may be given several times")->type_name("FILE");
}

namespace {

/// `levin help NAME` as the words that ask for it: of a command its own help, else what --help NAME tells.
std::vector<std::string> without_help_command(std::vector<std::string> arguments, const std::vector<std::string>& commands) {
  if (arguments.empty() || arguments.front() != "help") return arguments;
  if (arguments.size() > 1 && is_among(commands, arguments[1])) {
    arguments.erase(arguments.begin());
    arguments.insert(arguments.begin() + 1, "--help");
  } else {
    arguments.front() = "--help";
  }
  return arguments;
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& typed, const std::vector<Subcommand>& subcommands) {
  std::vector<std::string> commands;
  for (const Subcommand& subcommand : subcommands) commands.push_back(subcommand.name);
  const std::vector<std::string> arguments = without_help_command(typed, commands);
  CommandLine line;
  CLI::App app("Trains and evaluates modules from YAML configurations.", "levin");
  declare_program(app, subcommands);
  const auto named =
      std::find_if(arguments.begin(), arguments.end(), [&](const auto& word) { return is_among(commands, word); });
  const CLI::App* const command = named != arguments.end() ? app.get_subcommand(*named) : nullptr;
  std::vector<std::string> rest = Splitter(arguments, commands, command, line).split();
  std::reverse(rest.begin(), rest.end());  // the order in which CLI11 takes a vector

  try {
    app.parse(rest);
  } catch (const CLI::Success& request) {
    std::ostringstream output, ignored;
    app.exit(request, output, ignored);
    line.output = output.str();
    return line;
  } catch (const CLI::ParseError& error) {
    const bool names_no_option = command == nullptr || is_flag(error.what()) || error.get_name() != "RequiredError";
    throw ConfigError(Mark{"command line"},
                      names_no_option ? error.what() : format("{}: see levin {} --help", error.what(), command->get_name()));
  }
  check_extras(app, commands, line);
  if (line.help_topic) return line;
  const std::vector<CLI::App*> given = app.get_subcommands();
  if (given.empty()) throw ConfigError(format("a command is needed: levin {}; see levin --help", join(commands, ", ")));
  if (given.size() > 1)
    throw ConfigError(Mark{"command line"}, format("one command at a time: both '{}' and '{}' are given", given[0]->get_name(),
                                                   given[1]->get_name()));
  line.command = given.front()->get_name();
  return line;
}

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
