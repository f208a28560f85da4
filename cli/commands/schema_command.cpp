#include <iostream>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/config_schema.h"
#include "levin/cli/config/load_config.h"
#include "levin/core/config/value_json.h"

namespace levin::cli {

Subcommand schema_subcommand() {
  return {"schema", "Print the JSON Schema of the YAML for editors, with the classes of --config's plug-ins", declare_sources,
          [](const CommandLine& line) {
            load_plugins_of(line);
            std::cout << plain_json(config_schema());
            return 0;
          }};
}

}  // namespace levin::cli
