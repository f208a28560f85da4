#include "levin/cli/run_main.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/diagnostics.h"
#include "levin/cli/config/environment_sources.h"
#include "levin/cli/config/help_text.h"
#include "levin/cli/config/load_config.h"
#include "levin/core/base/error.h"
#include "levin/core/base/error_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/process.h"
#include "levin/core/base/text.h"
#include "levin/core/console/console.h"
#include "levin/strategies/launch/rank_start.h"

namespace levin {
namespace {

/// Shows the error that is being handled, in one text or several; one that the run has shown already to the log file only.
void show_error(const std::vector<std::string>& texts) {
  Console& console = Console::instance();
  const bool was_reported = console.was_reported(std::current_exception());
  for (const std::string& message : texts) {
    // It has the user's keys, names and values unchanged.
    const std::string text = printable(message);
    was_reported ? console.record(LogLevel::kError, text) : console.error(text);
  }
}

}  // namespace

int run_main(const std::function<void()>& program) {
  const OwnProcess own;
  try {
    program();
    return 0;
  } catch (const ConfigError& error) {
    show_error(cli::diagnostics(error));
    return error.exit_code();
  } catch (const Interrupted& interrupted) {
    // All ranks stop together, for the same reason, which is not an error: it was requested.
    Console& console = Console::instance();
    const LogLevel level = console.shows(LogLevel::kInfo, Speaker::kRun) ? LogLevel::kInfo : LogLevel::kError;
    if (!console.was_reported(std::current_exception())) console.print(level, interrupted.what(), Speaker::kRun);
    return interrupted.exit_code();
  } catch (const Error& error) {
    show_error({error.what()});
    return error.exit_code();
  } catch (...) {
    show_error({error_text(std::current_exception())});
    return 1;
  }
}

void launch(const std::function<void()>& program) {
  static std::atomic<int> calls = 0;
  const int call = calls++;
  if (const auto wanted = launch_of_this_rank()) {
    if (call < *wanted) return;
    end_process(run_main(program));
  }
  const LaunchPermit permit(call);
  try {
    program();
  } catch (...) {
    if (!permit.outcome()) throw;
  }
  if (!permit.outcome() || permit.outcome()->status == 0) return;
  const auto& [status, failure] = *permit.outcome();
  constexpr int kSignalStatus = 128;
  if (failure.empty() && status > kSignalStatus) throw Interrupted(status - kSignalStatus, "in all ranks");
  throw Error(failure.empty() ? format("the ranks exited with status {}", status) : failure, status);
}

}  // namespace levin

namespace levin::cli {
namespace {

int execute(const CommandLine& line, const std::vector<Subcommand>& commands) {
  if (!line.output.empty()) {
    std::cout << line.output;
    return 0;
  }
  if (line.help_topic) {
    std::cout << load_plugins_of(line) << topic_help(*line.help_topic);
    return 0;
  }
  const auto is_given = [&](const Subcommand& command) { return command.name == line.command; };
  return std::find_if(commands.begin(), commands.end(), is_given)->run(line);
}

}  // namespace

int run(int argc, char** argv) {
  introduce_rank();
  int status = 0;
  const int failed = run_main([&] {
    for (const std::string& error : detail::take_registration_errors()) throw MisuseError(error);
    const std::vector<Subcommand> commands = subcommands();
    CommandLine line = parse_command_line(std::vector<std::string>(argv + 1, argv + argc), commands);
    add_environment(line);
    line.words.assign(argv, argv + argc);
    line.words.at(0) = program_as_typed(line.words.at(0));
    status = execute(line, commands);
  });
  return failed != 0 ? failed : status;
}

}  // namespace levin::cli

extern "C" int levin_run(int argc, char** argv) { return levin::cli::run(argc, argv); }
