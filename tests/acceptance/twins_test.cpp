// The programs of tests/acceptance/programs/twins, on their own data.
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>

#include "support/program.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// Runs a program in a folder of its own, and gives the number that it prints behind `name`.
double printed(const TemporaryFolder& folder, const std::string& program, const std::string& name) {
  fs::create_directory_symlink(LEVIN_SOURCE_DIR "/examples", folder / "examples");
  const Outcome outcome = run({.arguments = {LEVIN_BINARY_DIR "/bin/twin_" + program},
                               .folder = folder.path(),
                               .environment = {{"OMP_NUM_THREADS", "1"}}});
  INFO(outcome.text());
  REQUIRE(outcome.ok());
  std::smatch match;
  REQUIRE(std::regex_search(outcome.out, match, std::regex(name + R"( (-?[0-9.]+))")));
  return std::stod(match[1]);
}

TEST_CASE("the programs that stand beside Lightning's learn what they are for") {
  const TemporaryFolder folder;
  SECTION("sine") {
    CHECK(printed(folder, "sine", "val_loss") < 0.05);
    CHECK_FALSE(fs::exists(folder / "logs"));
  }
  SECTION("digits") {
    CHECK(printed(folder, "digits", "test_acc") > 0.93);
    CHECK(fs::exists(folder / "logs/version_0/checkpoints/last.ckpt"));
  }
  SECTION("series") { CHECK(printed(folder, "series", "val_loss") < 0.15); }
  SECTION("reinforce") { CHECK(printed(folder, "reinforce", "return") > 0.7); }
  SECTION("vae") {
    CHECK(printed(folder, "vae", "val_loss") < 26);
    CHECK(fs::file_size(folder / "samples_9.pgm") == 64 * 64 + 13);
  }
  SECTION("fine_tuning") { CHECK(printed(folder, "fine_tuning", "val_acc") > 0.85); }
  SECTION("folds") { CHECK(printed(folder, "folds", "val_loss") < 1.5); }
}

}  // namespace
}  // namespace levin::test
