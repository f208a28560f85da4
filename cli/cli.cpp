#include "levin/cli/cli.h"

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "levin/cli/annotated_yaml.h"
#include "levin/cli/command_line.h"
#include "levin/cli/diagnostic.h"
#include "levin/cli/help_text.h"
#include "levin/cli/json_schema.h"
#include "levin/cli/load_config.h"
#include "levin/cli/run.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"

namespace levin::cli {
namespace {

std::string config_text(const RunConfig& config) {
  const Value complete = complete_config(config);
  return annotated_yaml(complete, config_comments(complete));
}

int execute(const CommandLine& line) {
  if (!line.output.empty()) {
    std::cout << line.output;
    return 0;
  }
  if (line.help_topic || line.command == "list" || line.command == "schema") {
    load_plugins_of(line);
    std::cout << (line.help_topic          ? topic_help(*line.help_topic)
                  : line.command == "list" ? list_text(line.list_kind)
                                           : json_text(config_schema()));
    return 0;
  }
  const RunConfig config = load_config(line);
  if (line.print_config) {
    std::cout << config_text(config);
    return 0;
  }
  require_parts(config);
  return run_command(line.command, config);
}

}  // namespace

int run(int argc, char** argv) {
  try {
    for (const std::string& error : detail::take_registration_errors()) throw MisuseError(error);
    return execute(parse_command_line(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const ConfigError& error) {
    for (const std::string& text : diagnostics(error)) Console::instance().error(text);
    return error.exit_code();
  } catch (const Error& error) {
    Console::instance().error(error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    Console::instance().error(error.what());
    return 1;
  }
}

}  // namespace levin::cli
