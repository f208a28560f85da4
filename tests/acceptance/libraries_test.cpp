#include <catch2/catch.hpp>
#include <fstream>

#include "acceptance/digits_run.h"
#include "support/run_paths.h"
#include "support/temporary_folder.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::Contains;

TEST_CASE("the program runs no library of the working folder") {
  const TemporaryFolder folder;
  for (const char* name : {"libz.so.1", "libyaml-cpp.so.0.7", "libspdlog.so.1.10", "libgomp.so.1"})
    std::ofstream(folder / name) << "no library at all";
  const Outcome outcome = run({.arguments = {levin_program(), "--version"}, .folder = folder.path()});
  INFO(outcome.text());
  CHECK(outcome.ok());
  CHECK_THAT(outcome.out, Contains("levin "));
}

TEST_CASE("list, help and --print_config say which file of a plug-in they load") {
  const TemporaryFolder folder;
  const std::string plugin = LEVIN_BINARY_DIR "/lib/levin/plugins/libdigits.so";
  fs::copy_file(plugin, folder / "libmine.so");
  std::ofstream(folder / "run.yaml") << "plugins: [libmine.so]\nmodel: Digits\n";
  const std::string config = (folder / "run.yaml").string();
  const std::string line = "plug-in: " + (folder / "libmine.so").string() + "\n";
  const Outcome help = levin({"fit", "--config", config, "--help", "Digits"});
  CHECK_THAT(help.out, Catch::StartsWith(line) && Contains("Digits (model)"));
  const Outcome list = levin({"list", "models", "--plugin", (folder / "libmine.so").string()});
  CHECK_THAT(list.out, Catch::StartsWith(line) && Contains("  Digits"));
  const Outcome printed = levin({"fit", "--config", config, "--print_config"});
  CHECK_THAT(printed.out, Contains("- " + (folder / "libmine.so").string() + "\n"));
}

}  // namespace
}  // namespace levin::test
