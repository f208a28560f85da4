#include "levin/cli/run_main.h"

#include <iostream>
#include <string>
#include <vector>

#include "levin/cli/bench.h"
#include "levin/cli/command_line.h"
#include "levin/cli/config_file.h"
#include "levin/cli/environment.h"
#include "levin/cli/file_commands.h"
#include "levin/cli/help_text.h"
#include "levin/cli/json_schema.h"
#include "levin/cli/load_config.h"
#include "levin/cli/new_project.h"
#include "levin/cli/run.h"
#include "levin/core/base/error.h"
#include "levin/strategies/launch/rank_start.h"

namespace levin::cli {
namespace {

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
  if (line.command == "inspect") {
    const Inspection inspection = inspect(line.file);
    std::cout << inspection.text;
    return inspection.is_whole ? 0 : 1;
  }
  if (line.command == "export") {
    std::cout << export_weights(line.file);
    return 0;
  }
  // Before anything of the user's runs.
  if (!line.print_config && start_ranks_here()) introduce_rank();
  const RunConfig config = load_config(line);
  if (line.print_config) {
    std::cout << printed_config(write_options(config));
    return 0;
  }
  if (line.command == "bench" && line.bench.what == "comm") {
    bench_comm(line, config);
    return 0;
  }
  require_model(config);
  if (line.command == "bench") {
    bench_ddp(line, config);
    return 0;
  }
  run_command(line, config);
  return 0;
}

}  // namespace

int run(int argc, char** argv) {
  introduce_rank();
  int status = 0;
  const int failed = run_main([&] {
    for (const std::string& error : detail::take_registration_errors()) throw MisuseError(error);
    CommandLine line = parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
    add_environment(line);
    line.words.assign(argv, argv + argc);
    status = execute(line);
  });
  return failed != 0 ? failed : status;
}

}  // namespace levin::cli

extern "C" int levin_run(int argc, char** argv) { return levin::cli::run(argc, argv); }
