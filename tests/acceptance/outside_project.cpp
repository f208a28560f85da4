#include "acceptance/outside_project.h"

#include <catch2/catch.hpp>
#include <cstdlib>

namespace levin::test {

namespace fs = std::filesystem;

OutsideProject::OutsideProject(const std::string& name) : folder_(fs::path(LEVIN_BINARY_DIR) / "tests/projects" / name) {
  fs::remove_all(folder_);
  fs::create_directories(folder_.parent_path());
}

void OutsideProject::build() const {
  std::vector<std::string> configure = {"cmake", "-G", "Ninja", "-B", "build", "-Dlevin_DIR=" LEVIN_BINARY_DIR};
  if (std::getenv("LEVIN_MATRIX") == nullptr) {
    configure.insert(configure.end(), {"-DLEVIN_PRECOMPILE=OFF", "-DCMAKE_BUILD_TYPE=None"});
    if (run({.arguments = {"ccache", "--version"}}).ok()) configure.emplace_back("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache");
  }
  command(configure);
  command({"cmake", "--build", "build"});
}

Outcome OutsideProject::command(const std::vector<std::string>& arguments, const fs::path& folder) const {
  const Outcome outcome = run({.arguments = arguments,
                               .folder = folder.empty() ? folder_ : folder,
                               .environment = {{"OMP_NUM_THREADS", "1"}},
                               .limit = std::chrono::seconds(500)});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  return outcome;
}

Outcome OutsideProject::levin(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), LEVIN_BINARY_DIR "/bin/levin");
  return command(arguments);
}

}  // namespace levin::test
