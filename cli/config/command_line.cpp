
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/command_walk.h"
#include "levin/cli/config/environment_sources.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/misplaced_keys.h"
#include "levin/cli/lightning/lightning_names.h"
#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

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
    // Options of the launcher may be given without their section.
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
    // Reported when the options are right.
  }
  return partial_config(line);
}

/// "; did you mean '--trainer.max_epochs=3'?" for an unknown option.
std::string suggested_option(const std::string& wrong, const CommandLine& line) {
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
  std::vector<std::string> meant = suggested_keys(key, whole_config(line));
  // The last part alone leads to a key of another section only where the section is not a slip of one.
  const bool is_whole = head == key && !meant.empty() && edit_distance(key, meant[0].substr(meant[0].rfind('.') + 1)) == 0;
  if (!nearest.empty() && !is_whole) meant = {nearest + key.substr(head.size())};
  if (wrong == "-v") return "; did you mean '-V'?";
  if (meant.empty()) return "; sections are " + quoted_list(section_names());
  return format("; did you mean '{}'?", join(meant, "' or '", [&](const std::string& name) { return "--" + name + value; }));
}

/// "; did you mean 'fit'?" for a word that is not a command of this program; other programs have it, or it is a slip.
std::string suggested_command(const std::string& wrong, const std::vector<std::string>& commands) {
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
                        format("there is no command {}{}", quoted_text(wrong), suggested_command(wrong, commands)));
    throw ConfigError(
        Mark{"command line"},
        format("unexpected argument {}; {}", quoted_text(wrong),
               is_yaml ? "give it with --config" : format("see levin {} --help", app.get_subcommands().front()->get_name())));
  }
  if (!app.get_subcommands().empty()) line.command = app.get_subcommands().front()->get_name();
  throw ConfigError(Mark{"command line"}, format("unknown option {}{}", quoted_text(wrong), suggested_option(wrong, line)));
}

/// `levin help NAME` as the options for it: the help of a command, else --help NAME.
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

}  // namespace levin::cli
