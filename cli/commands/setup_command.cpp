#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "levin/cli/commands/subcommands.h"
#include "levin/cli/setup_script.h"

namespace levin::cli {

// Where there is no LibTorch yet, main() runs the same script.
Subcommand setup_subcommand() {
  struct Options {
    bool cuda = false;
    bool cpu = false;
  };
  const auto options = std::make_shared<Options>();
  return {"setup", "Download LibTorch from PyPI to where levin finds it",
          [options](CLI::App& app) {
            auto* const cuda = app.add_flag("--cuda", options->cuda, "With CUDA's libraries, even without a GPU");
            app.add_flag("--cpu", options->cpu, "Without CUDA's libraries, even with a GPU")->excludes(cuda);
          },
          [options](const CommandLine&) {
            std::vector<std::string> arguments;
            if (options->cuda) arguments.emplace_back("--cuda");
            if (options->cpu) arguments.emplace_back("--cpu");
            return become_setup_script(LEVIN_TORCH_VERSION, arguments);
          }};
}

}  // namespace levin::cli
