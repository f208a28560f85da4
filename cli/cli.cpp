#include "levin/cli/cli.h"

#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "levin/cli/annotated_yaml.h"
#include "levin/cli/command_line.h"
#include "levin/cli/diagnostic.h"
#include "levin/cli/environment.h"
#include "levin/cli/help_text.h"
#include "levin/cli/json_schema.h"
#include "levin/cli/load_config.h"
#include "levin/cli/new_project.h"
#include "levin/cli/run.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/quoted_text.h"
#include "levin/core/console/console.h"
#include "levin/core/error.h"
#include "levin/strategies/rank_start.h"

namespace levin::cli {
namespace {

std::string config_text(const RunConfig& config) {
  const Value complete = write_options(config);
  return annotated_yaml(complete, config_comments(complete));
}

int execute(const CommandLine& line) {
  if (!line.output.empty()) {
    std::cout << line.output;
    return 0;
  }
  if (line.help_topic || line.command == "list" || line.command == "schema") {
    const std::vector<std::string> plugins = load_plugins_of(line);
    std::cout << (line.help_topic          ? plugins_text(plugins) + topic_help(*line.help_topic)
                  : line.command == "list" ? plugins_text(plugins) + list_text(line.list_kind)
                                           : json_text(config_schema()));
    return 0;
  }
  if (line.command == "new") {
    std::cout << new_project(line.project, line.template_name);
    return 0;
  }
  // Before anything of the user's runs.
  if (!line.print_config && start_ranks_here()) introduce_rank();
  const RunConfig config = load_config(line);
  if (line.print_config) {
    std::cout << config_text(config);
    return 0;
  }
  require_model(config);
  run_command(line, config);
  return 0;
}

/// Shows the error that is being handled and ends this process, in one text or several. One that the run has told already, with
/// the place where it failed, goes to the log file only.
void show_error(const std::vector<std::string>& texts) {
  Console& console = Console::instance();
  const bool was_told = console.was_told(std::current_exception());
  for (const std::string& message : texts) {
    // Keys, names and values of the user's stand in it as they are.
    const std::string text = printable(message);
    was_told ? console.record(LogLevel::kError, text) : console.error(text);
  }
}

}  // namespace

int run(int argc, char** argv) {
  introduce_rank();
  try {
    for (const std::string& error : detail::take_registration_errors()) throw MisuseError(error);
    CommandLine line = parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
    add_environment(line);
    return execute(line);
  } catch (const ConfigError& error) {
    show_error(diagnostics(error));
    return error.exit_code();
  } catch (const Interrupted& interrupted) {
    // All ranks stop together, for the same reason.
    Console::instance().print(LogLevel::kError, interrupted.what(), Speaker::kRun);
    return interrupted.exit_code();
  } catch (const Error& error) {
    show_error({error.what()});
    return error.exit_code();
  } catch (const std::exception& error) {
    show_error({error_text(error)});
    return 1;
  }
}

}  // namespace levin::cli

extern "C" int levin_run(int argc, char** argv) { return levin::cli::run(argc, argv); }
