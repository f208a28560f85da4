#pragma once

#include <vector>

#include "levin/cli/command_line.h"
#include "levin/cli/run_config.h"

namespace levin::cli {

// Each is made in the source that does its work.
Subcommand run_subcommand(const std::string& name, const std::string& help);  // run.cpp
Subcommand list_subcommand();                                                 // help_text.cpp
Subcommand schema_subcommand();                                               // json_schema.cpp
Subcommand new_subcommand();                                                  // new_project.cpp
Subcommand inspect_subcommand();                                              // file_commands.cpp
Subcommand export_subcommand();                                               // file_commands.cpp
Subcommand bench_subcommand();                                                // bench_comm.cpp

/// The table of all.
inline std::vector<Subcommand> subcommands() {
  return {run_subcommand("fit", "Train a model, and validate it on the way"),
          run_subcommand("validate", "Run the validation loop"),
          run_subcommand("test", "Run the test loop"),
          run_subcommand("predict", "Run the prediction loop"),
          list_subcommand(),
          schema_subcommand(),
          new_subcommand(),
          inspect_subcommand(),
          export_subcommand(),
          bench_subcommand()};
}

/// The configuration of a run. Before anything of the user's is read, ranks that it may start are given their beginning.
RunConfig begin_run(const CommandLine& line);  // cli.cpp

}  // namespace levin::cli
