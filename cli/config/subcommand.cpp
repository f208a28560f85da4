#include "levin/cli/config/subcommand.h"

#include <CLI/CLI.hpp>

namespace levin::cli {

// Taken out by Splitter; declared for --help.
void declare_sources(CLI::App& app) {
  app.add_option("-c,--config", "YAML file; may be given several times, and later ones win")->type_name("FILE");
  app.add_option("--plugin", "Library with your classes; may be given several times")->type_name("FILE");
}

}  // namespace levin::cli
