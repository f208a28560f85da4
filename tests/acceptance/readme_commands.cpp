#include "acceptance/readme_commands.h"

#include <catch2/catch.hpp>
#include <sstream>

#include "support/file_text.h"
#include "support/program.h"

namespace levin::test {

namespace fs = std::filesystem;

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

std::vector<std::string> run_from_root(const std::vector<std::string>& commands, const fs::path& folder) {
  fs::create_directory_symlink(LEVIN_SOURCE_DIR "/examples", folder / "examples");
  fs::create_directory_symlink(LEVIN_BINARY_DIR, folder / "build");
  std::vector<std::string> printed;
  for (const std::string& command : commands) {
    if (command.find("build/bin/") == std::string::npos) continue;
    const Outcome outcome = run({.arguments = {"sh", "-e", "-c", command},
                                 .folder = folder,
                                 .environment = {{"OMP_NUM_THREADS", "1"}},
                                 .limit = std::chrono::seconds(300)});
    INFO(command << "\n" << outcome.text());
    CHECK(outcome.ok());
    printed.push_back(outcome.out);
  }
  return printed;
}

}  // namespace levin::test
