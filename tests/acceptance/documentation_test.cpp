#include <catch2/catch.hpp>
#include <sstream>

#include "acceptance/digits_run.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

bool runs_a_built_program(const std::string& command) { return command.find("build/bin/") != std::string::npos; }

/// The text of a document's ```sh blocks.
std::vector<std::string> shell_blocks(const fs::path& document) {
  std::vector<std::string> blocks;
  std::istringstream lines(read_text(document));
  bool in_block = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_block = line == "```sh";
      if (in_block) blocks.emplace_back();
    } else if (in_block) {
      blocks.back() += line + "\n";
    }
  }
  return blocks;
}

/// Runs commands as from the repository's root, one after another in one folder that is made for them.
void run_all(const std::vector<std::string>& commands) {
  const TemporaryFolder folder;
  fs::create_directory_symlink(LEVIN_SOURCE_DIR "/examples", folder / "examples");
  fs::create_directory_symlink(LEVIN_BINARY_DIR, folder / "build");
  int run_built = 0;
  for (const std::string& command : commands) {
    if (!runs_a_built_program(command)) continue;
    ++run_built;
    const Outcome outcome = run({.arguments = {"sh", "-e", "-c", command},
                                 .folder = folder.path(),
                                 .environment = {{"OMP_NUM_THREADS", "1"}},
                                 .limit = std::chrono::seconds(300)});
    INFO(command << "\n" << outcome.text());
    CHECK(outcome.ok());
  }
  CHECK(run_built > 0);
}

TEST_CASE("the commands in the documentation run as written") {
  for (const char* document : {"docs/cli.md", "docs/checkpoints.md", "docs/distributed.md"}) {
    INFO(document);
    std::vector<std::string> commands;
    for (const std::string& block : shell_blocks(fs::path(LEVIN_SOURCE_DIR) / document)) {
      std::istringstream lines(block);
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("build/bin/levin ")) commands.push_back(line);
      }
    }
    run_all(commands);
  }
}

TEST_CASE("the commands in each example's README run as written") {
  int examples = 0;
  for (const auto& entry : fs::directory_iterator(LEVIN_SOURCE_DIR "/examples")) {
    if (!entry.is_directory()) continue;
    ++examples;
    INFO(entry.path().filename().string());
    run_all(shell_blocks(entry.path() / "README.md"));
  }
  CHECK(examples > 2);
}

}  // namespace
}  // namespace levin::test
