#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "acceptance/readme_commands.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("the commands in the documentation run as written") {
  for (const char* document : {"docs/cli.md", "docs/checkpoints.md", "docs/ddp.md", "docs/distributed.md"}) {
    INFO(document);
    std::vector<std::string> commands;
    for (const std::string& block : shell_blocks(fs::path(LEVIN_SOURCE_DIR) / document)) {
      std::istringstream lines(block);
      for (std::string line; std::getline(lines, line);) {
        if (line.find("build/bin/levin ") != std::string::npos) commands.push_back(line);
      }
    }
    const TemporaryFolder folder;
    CHECK_FALSE(run_from_root(commands, folder.path()).empty());
  }
}

TEST_CASE("the commands in each example's README run as written") {
  // Their own tests run them, and look at what they print.
  const std::set<std::string> tested = {"gan", "language_model", "table"};
  int examples = 0;
  for (const auto& entry : fs::directory_iterator(LEVIN_SOURCE_DIR "/examples")) {
    const std::string name = entry.path().filename();
    if (!entry.is_directory() || tested.contains(name)) continue;
    ++examples;
    INFO(name);
    const TemporaryFolder folder;
    CHECK_FALSE(run_from_root(shell_blocks(entry.path() / "README.md"), folder.path()).empty());
  }
  CHECK(examples > 2);
}

}  // namespace
}  // namespace levin::test
