#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>

#include "levin/cli/commands/manual_files.h"
#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/command_walk.h"
#include "levin/cli/embedded_file.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/version.h"

namespace levin::cli {
namespace {

/// A text as troff reads it: on one line, in ASCII, and not taken for a request.
std::string troff_text(std::string_view text) {
  std::string written = "\\&";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text.substr(at)));
    if (length > 1) {
      written += format("\\[u{:04X}]", static_cast<std::uint32_t>(utf8_code_point(text.substr(at), length)));
    } else if (text[at] == '\\') {
      written += "\\e";
    } else if (text[at] == '-') {
      written += "\\-";
    } else {
      written += text[at] == '\n' ? ' ' : text[at];
    }
    at += length;
  }
  return written;
}

/// A paragraph with a hanging name.
std::string entry(const std::string& name, const std::string& value, const std::string& help) {
  const std::string shown = value.empty() ? "" : format(" \\fI{}\\fR", troff_text(value));
  return format(".TP\n\\fB{}\\fR{}\n{}\n", troff_text(name), shown, troff_text(help));
}

std::string command_section(const std::string& words, const CLI::App& command) {
  std::string text =
      words.empty() ? "Of all commands:\n" : format(".SS levin {}\n{}.\n", words, troff_text(command.get_description()));
  for (const CLI::Option* option : command.get_options()) {
    if (!words.empty() && option == command.get_help_ptr()) continue;
    text += entry(shown_name(*option), shown_value(*option), option->get_description() + ".");
  }
  return text;
}

/// The page is of the time that it is printed at, or of the one that reproducible builds name.
std::string date_of_page() {
  const char* const given = std::getenv("SOURCE_DATE_EPOCH");
  const std::time_t time = given != nullptr ? std::strtoll(given, nullptr, 10) : std::time(nullptr);
  std::tm date{};
  gmtime_r(&time, &date);
  return format("{}-{:02}-{:02}", date.tm_year + 1900, date.tm_mon + 1, date.tm_mday);
}

std::string manual_page() {
  CLI::App program;
  declare_program(program, subcommands());
  std::string commands;
  for_each_command(program,
                   [&](const std::string& words, const CLI::App& command) { commands += command_section(words, command); });
  std::string environment;
  for (const auto& [name, help] : environment_variables()) environment += entry(name, "", help);
  return filled(
      manual_file("levin.1"),
      {{"@DATE@", date_of_page()}, {"@VERSION@", kVersion}, {"@COMMANDS@", commands}, {"@ENVIRONMENT@", environment}});
}

}  // namespace

Subcommand man_subcommand() {
  return {"man", "Print the manual page: levin man | man -l -", [](CLI::App&) {},
          [](const CommandLine&) {
            std::cout << manual_page();
            return 0;
          }};
}

}  // namespace levin::cli
