#pragma once

#include <functional>
#include <string>
#include <vector>

#include "levin/cli/config/subcommand.h"

namespace CLI {
class Option;
}

namespace levin::cli {

// What is declared of the command line, for completion and the manual page.

/// Declares the options of the program and all subcommands.
void declare_program(CLI::App& app, const std::vector<Subcommand>& subcommands);

/// Visits the program and each command below it, in order. `words` are what is typed for it: "", "runs", "runs delete".
void for_each_command(const CLI::App& program, const std::function<void(const std::string& words, const CLI::App&)>& visit);

/// "-o,--output"; "FOLDERS" of what is given without a name.
std::string shown_name(const CLI::Option& option);
/// What an option takes behind its name, in one word: "FILE", "{min,max}", "INT"; empty for a flag.
std::string shown_value(const CLI::Option& option);
/// The values that it may have, where it says so as choice_name() does.
std::vector<std::string> choices_of(const CLI::Option& option);
/// True where a command reads a configuration, whose keys are options too.
bool reads_config(const CLI::App& command);

}  // namespace levin::cli
