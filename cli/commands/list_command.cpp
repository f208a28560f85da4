#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/config/class_catalog.h"
#include "levin/cli/config/help_text.h"
#include "levin/cli/config/load_config.h"
#include "levin/core/base/text.h"

namespace levin::cli {

Subcommand list_subcommand() {
  const auto kind = std::make_shared<std::string>();
  return {"list", "List the classes that YAML may name, with those of --config's plug-ins",
          [kind](CLI::App& app) {
            app.add_option("kind", *kind, "The kind; default: all")->type_name(choice_name([] {
              std::vector<std::string> plurals;
              for (const ClassKind& kind : class_catalog()) plurals.push_back(kind.plural);
              return plurals;
            }()));
            declare_sources(app);
          },
          [kind](const CommandLine& line) {
            std::cout << load_plugins_of(line)
                      << (kind->empty() ? join(class_catalog(), "\n", kind_help) : kind_help(class_kind(*kind)));
            return 0;
          }};
}

}  // namespace levin::cli
