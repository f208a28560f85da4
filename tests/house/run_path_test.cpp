#include <algorithm>
#include <catch2/catch.hpp>

#include "support/run_paths.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

TEST_CASE("nothing that is built looks for libraries in the folder where it is run") {
  std::vector<fs::path> files;
  for (const char* folder : {"bin", "lib", "tests"}) {
    for (const fs::path& file : linked_files(fs::path(LEVIN_BINARY_DIR) / folder)) files.push_back(file);
  }
  const auto has = [&](const char* name) {
    return std::any_of(files.begin(), files.end(), [&](const fs::path& file) { return file.filename() == name; });
  };
  REQUIRE(has("levin"));
  REQUIRE(has("house_tests"));
  REQUIRE(std::any_of(files.begin(), files.end(),
                      [](const fs::path& file) { return file.filename().string().starts_with("liblevin.so"); }));
  CHECK(unsafe_run_paths(files) == std::vector<std::string>());
}

}  // namespace
}  // namespace levin::test
