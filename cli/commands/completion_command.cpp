#include <CLI/CLI.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/command_walk.h"
#include "levin/cli/config/load_config.h"
#include "levin/cli/config/shell_words.h"
#include "levin/cli/embedded_file.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/to_yaml.h"
#include "levin/core/console/terminal.h"

namespace levin::cli {
namespace {

/// What stands below cli/completion: levin.bash and its like.
constexpr EmbeddedFile kScripts[] = {
#include "completion_scripts.inc"
};

/// What scripts write for the values of a flag, and for values that are files; other values are unknown.
constexpr const char* kNone = "-";
constexpr const char* kFiles = "@";

/// A line of what may be typed: "COMMAND|WORD|VALUES|HELP". The command "*" stands for all that have the line "COMMAND|*||". A
/// word is a command, or an option, which ends with '=' where its value stands behind that; of an argument it is empty. The
/// values are parted by blanks.
std::string row(const std::string& command, const std::string& word, const std::string& values, const std::string& help) {
  return format("{}|{}|{}|{}\n", command, word, values, one_line(help));
}

void add_option(std::string& rows, const std::string& command, const CLI::Option& option) {
  const std::string value = shown_value(option);
  const bool is_number = value == "INT" || value == "UINT" || value == "FLOAT";
  const std::string choices = join(choices_of(option), " ");
  const std::string values = value.empty() ? kNone : !choices.empty() ? choices : is_number ? "" : kFiles;
  std::vector<std::string> words;
  for (const std::string& name : option.get_lnames()) words.push_back("--" + name);
  for (const std::string& name : option.get_snames()) words.push_back("-" + name);
  if (words.empty()) words.emplace_back();
  for (const std::string& word : words) rows += row(command, word, values, option.get_description());
}

void add_command(std::string& rows, const std::string& words, const CLI::App& command) {
  for (const CLI::App* below : command.get_subcommands({}))
    rows += row(words, below->get_name(), kNone, below->get_description());
  for (const CLI::Option* option : command.get_options()) {
    if (!reads_config(command) || option != command.get_help_ptr()) add_option(rows, words, *option);
  }
  if (reads_config(command)) rows += row(words, "*", "", "");
}

/// The names of the classes that an option takes, and of its other values where they are few.
void collect_values(const Value& schema, std::vector<std::string>& values) {
  const auto add = [&](const std::string& value) {
    if (!is_among(values, value) && value.find_first_of(" |") == std::string::npos) values.push_back(value);
  };
  if (const std::string kind = kind_of(schema); !kind.empty()) {
    for (const ClassInfo* info : class_kind(kind).classes()) add(info->name);
  }
  if (const Value* alternatives = schema.find("anyOf")) {
    for (const Value& alternative : alternatives->as_list()) collect_values(alternative, values);
  }
  for (const char* word : {"true", "false"}) {
    if (schema.find("type") != nullptr && schema.at("type") == Value("boolean")) add(word);
  }
  for (const Value& choice : schema.contains("enum") ? schema.at("enum").as_list() : Value::List{}) add(scalar_text(choice));
}

/// The keys of the configuration, each once: classes may have options of one name.
class Keys {
 public:
  Keys() {
    for (const OptionInfo& section : describe_options<RunConfig>()) {
      if (section.name == "trainer") {
        for (const OptionInfo& flag : describe_options<TrainerOptions>()) add("trainer." + flag.name, flag);
      } else {
        add(section.name, section);
        for (const OptionInfo& setting : section_settings(section.name))
          add(format("{}.{}", section.name, setting.name), setting);
      }
    }
  }

  void add_to(std::string& rows) const {
    for (const auto& [word, key] : keys_)
      rows += row("*", word, key.values.empty() && key.is_file ? kFiles : join(key.values, " "), key.help);
  }

 private:
  struct Key {
    std::vector<std::string> values;
    std::string help;
    bool is_file = false;
  };

  void add_key(const std::string& word, const OptionInfo& option) {
    Key& key = keys_[word];
    for (const std::string& choice : option.choices) {
      if (!is_among(key.values, choice)) key.values.push_back(choice);
    }
    collect_values(option.schema, key.values);
    if (key.help.empty()) key.help = option.help;
    key.is_file |= option.input_file || option.type.find("path") != std::string::npos;
  }

  /// An option; and, where its value is an object, the options of the classes that this may be of.
  void add(const std::string& name, const OptionInfo& option) {
    add_key(format("--{}=", name), option);
    const std::string kind = kind_of(option.schema);
    if (kind.empty()) return;
    if (option.schema.contains("items") || option.type.find("list") != std::string::npos)
      add_key(format("--{}+=", name), option);
    for (const ClassInfo* info : class_kind(kind).classes()) {
      for (const OptionInfo& argument : info->options) add_key(format("--{}.{}=", name, argument.name), argument);
    }
  }

  std::map<std::string, Key> keys_;
};

/// The topics of --help.
std::string help_topics() {
  std::vector<std::string> topics = section_names();
  for (const ClassKind& kind : class_catalog()) {
    topics.push_back(kind.plural);
    for (const ClassInfo* info : kind.classes()) topics.push_back(info->name);
  }
  return join(topics, " ");
}

std::string completion_script(const std::string& shell) {
  CLI::App program;
  declare_program(program, subcommands());
  std::string rows;
  for_each_command(program, [&](const std::string& words, const CLI::App& command) { add_command(rows, words, command); });
  rows += row("*", "--help", help_topics(), "Print help, also on a class, a section or a key");
  Keys().add_to(rows);
  return filled(embedded_text(kScripts, "levin." + shell), {{"@ROWS@", shell_quoted(rows)}});
}

}  // namespace

Subcommand completion_subcommand() {
  const auto shell = std::make_shared<std::string>();
  return {"completion", "Print a completion script for a shell, with the classes of --config's plug-ins",
          [shell](CLI::App& app) {
            app.add_option("shell", *shell, "The shell")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
            declare_sources(app);
          },
          [shell](const CommandLine& line) {
            load_plugins_of(line);
            std::cout << completion_script(*shell);
            return 0;
          }};
}

}  // namespace levin::cli
