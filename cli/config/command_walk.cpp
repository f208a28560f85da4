#include "levin/cli/config/command_walk.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "levin/cli/config/installation.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/build_info.h"

namespace levin::cli {
namespace {

using Visitor = std::function<void(const std::string& words, const CLI::App&)>;

void visit_below(const std::string& words, const CLI::App& command, const Visitor& visit) {
  visit(words, command);
  for (const CLI::App* below : command.get_subcommands({}))
    visit_below(words.empty() ? below->get_name() : format("{} {}", words, below->get_name()), *below, visit);
}

}  // namespace

void declare_program(CLI::App& app, const std::vector<Subcommand>& subcommands) {
  app.add_flag_callback(
      "--cmake-dir", [] { throw CLI::CallForVersion(cmake_folder(), 0); }, "Print the folder for CMake's -Dlevin_DIR");
  app.set_version_flag("-V,--version", build_info());
  app.set_help_flag("-h,--help",
                    "Print this help; --help NAME, or levin help NAME, describes a command, a class, a section or a key");
  app.allow_extras();
  app.fallthrough();
  for (const Subcommand& subcommand : subcommands) {
    CLI::App* command = app.add_subcommand(subcommand.name, subcommand.help);
    command->allow_extras();
    subcommand.declare(*command);
  }
}

void for_each_command(const CLI::App& program, const Visitor& visit) { visit_below("", program, visit); }

std::string shown_name(const CLI::Option& option) {
  std::string name = option.get_name(/*positional=*/option.get_positional(), /*all_options=*/!option.get_positional());
  if (!option.get_positional()) return name;
  std::ranges::transform(name, name.begin(), [](unsigned char letter) { return std::toupper(letter); });
  return name;
}

std::string shown_value(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return "";
  const std::string type = option.get_type_name();
  const std::size_t choices = type.find('{');
  return choices != std::string::npos ? type.substr(choices) : type.substr(0, type.find(':'));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string value = shown_value(option);
  if (!value.starts_with('{')) return {};
  return split(std::string_view(value).substr(1, value.find('}') - 1), ",");
}

bool reads_config(const CLI::App& command) { return command.get_option_no_throw("--config") != nullptr; }

}  // namespace levin::cli
