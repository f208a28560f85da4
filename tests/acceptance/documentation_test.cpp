#include <catch2/catch.hpp>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "acceptance/digits_run.h"
#include "acceptance/readme_commands.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

// With the page's module from this build, since a project of its own takes a minute to build.
TEST_CASE("the commands of the first hour end as the page says") {
  const TemporaryFolder folder;
  const fs::path project = folder / "pendulum";
  std::map<std::string, Outcome> done;
  for (const std::string& command : shell_blocks(LEVIN_SOURCE_DIR "/docs/first-hour.md")) {
    std::istringstream words(command.substr(0, command.size() - 1));
    std::vector<std::string> arguments{std::istream_iterator<std::string>(words), {}};
    REQUIRE(arguments.at(0) == "levin");
    const std::string name = arguments.at(1) + (command.find("ckpt_path=last") != std::string::npos ? " again" : "");
    arguments.front() = levin_program();
    done[name] = run({.arguments = arguments, .folder = arguments.at(1) == "new" ? folder.path() : project});
    INFO(command << done[name].text());
    REQUIRE(done[name].ok());
    if (arguments.at(1) != "new") continue;
    fs::create_directory(project / "build");
    fs::copy_file(LEVIN_BINARY_DIR "/tests/plugins/libtemplates.so", project / "build/libpendulum.so");
  }
  CHECK(done.at("fit").text().find("max_epochs=20 reached") != std::string::npos);
  CHECK(done.at("fit again").text().find("fit resumes from logs/version_1/checkpoints/epoch=19-step=140.ckpt") !=
        std::string::npos);
  CHECK(done.at("fit again").text().find("val_loss did not improve in the last 20 checks") != std::string::npos);
  CHECK(done.at("test").text().find("test uses the weights of logs/version_2/checkpoints/") != std::string::npos);
  CHECK(done.at("predict").text().find("predictions: logs/version_4/predictions.csv (300 samples)") != std::string::npos);
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
