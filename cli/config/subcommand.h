#pragma once

#include <functional>
#include <string>
#include <vector>

#include "levin/core/base/text.h"

namespace CLI {
class App;
}

namespace levin::cli {

struct CommandLine;

/// A subcommand of `levin`.
struct Subcommand {
  std::string name;
  std::string help;
  std::function<void(CLI::App& app)> declare;       ///< declares its options, which `run` finds filled in
  std::function<int(const CommandLine& line)> run;  ///< does it, and gives the exit status
};

/// Declares --config and --plugin, of a subcommand that reads a configuration.
void declare_sources(CLI::App& app);

/// "{min,max}": what an option takes that is one of these, for CLI::Option::type_name(), where they are checked otherwise.
inline std::string choice_name(const std::vector<std::string>& choices) { return "{" + join(choices, ",") + "}"; }

}  // namespace levin::cli
