#include <catch2/catch.hpp>
#include <sstream>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// The commands in a document's ```sh blocks that run the levin program from the repository's root.
std::vector<std::string> levin_commands(const fs::path& document) {
  std::vector<std::string> commands;
  std::istringstream lines(read_text(document));
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) in_block = line == "```sh";
    if (in_block && line.starts_with("build/bin/levin ")) commands.push_back(line);
  }
  return commands;
}

TEST_CASE("the commands in the documentation run as written") {
  const std::vector<fs::path> documents = {"docs/cli.md", "docs/checkpoints.md", "docs/distributed.md",
                                           "examples/digits/README.md"};
  for (const fs::path& document : documents) {
    const TemporaryFolder folder;
    fs::create_directory_symlink(LEVIN_SOURCE_DIR "/examples", folder / "examples");
    fs::create_directory_symlink(LEVIN_BINARY_DIR, folder / "build");
    const auto commands = levin_commands(LEVIN_SOURCE_DIR / document);
    REQUIRE_FALSE(commands.empty());
    for (const std::string& command : commands) {
      const Outcome outcome =
          run({.arguments = {"sh", "-c", command}, .folder = folder.path(), .environment = {{"OMP_NUM_THREADS", "1"}}});
      INFO(command << "\n" << outcome.text());
      CHECK(outcome.ok());
    }
  }
}

}  // namespace
}  // namespace levin::test
