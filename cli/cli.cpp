#include <algorithm>
#include <iostream>
#include <vector>

#include "levin/cli/help_text.h"
#include "levin/cli/load_config.h"
#include "levin/cli/run_main.h"
#include "levin/cli/subcommands.h"
#include "levin/core/base/error.h"
#include "levin/strategies/launch/rank_start.h"

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

RunConfig begin_run(const CommandLine& line) {
  if (start_ranks_here()) introduce_rank();
  return load_config(line);
}

int run(int argc, char** argv) {
  introduce_rank();
  int status = 0;
  const int failed = run_main([&] {
    for (const std::string& error : detail::take_registration_errors()) throw MisuseError(error);
    const std::vector<Subcommand> commands = subcommands();
    CommandLine line = parse_command_line(std::vector<std::string>(argv + 1, argv + argc), commands);
    add_environment(line);
    line.words.assign(argv, argv + argc);
    status = execute(line, commands);
  });
  return failed != 0 ? failed : status;
}

}  // namespace levin::cli

extern "C" int levin_run(int argc, char** argv) { return levin::cli::run(argc, argv); }
