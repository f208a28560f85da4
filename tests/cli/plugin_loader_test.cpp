#include "levin/cli/plugin_loader.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "levin/core/logger.h"
#include "levin/core/options/registry.h"
#include "support/temporary_folder.h"

using levin::Mark;
using levin::Value;
using levin::cli::find_plugin;
using levin::cli::load_plugin;
namespace fs = std::filesystem;

namespace {

Value named(const std::string& name, const std::string& yaml_file) {
  Value value(name);
  value.set_mark({yaml_file, 3, 5});
  return value;
}

}  // namespace

TEST_CASE("a plug-in is found as written and beside the file that names it") {
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "libmine.so") << "";
  CHECK(find_plugin(named((folder / "libmine.so").string(), "run.yaml")) == folder / "libmine.so");
  CHECK(find_plugin(named("libmine.so", (folder / "run.yaml").string())) == folder / "libmine.so");
  CHECK_THROWS_WITH(find_plugin(named("libother.so", (folder / "run.yaml").string())),
                    Catch::Contains("run.yaml:3:5: there is no plug-in 'libother.so'") &&
                        Catch::Contains((folder / "libother.so").string()) && Catch::Contains("lib/levin/plugins/libother.so"));
  CHECK_THROWS_WITH(find_plugin(named(folder.path(), "run.yaml")), Catch::Contains("there is no plug-in"));
  CHECK_THROWS_WITH(find_plugin(named("", "run.yaml")), Catch::Contains("empty"));
  CHECK_THROWS_AS(find_plugin(Value(1.5)), levin::ConfigError);
}

TEST_CASE("a plug-in beside the file that names it goes before one in the working folder") {
  const levin::test::TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::create_directories(folder / "working/more");
  fs::create_directories(folder / "yaml/more");
  for (const char* name : {"working/liba.so", "working/libb.so", "working/more/liba.so", "yaml/liba.so", "yaml/more/liba.so"})
    std::ofstream(folder / name) << "";
  const std::string yaml = folder / "yaml/run.yaml";
  fs::current_path(folder / "working");
  const fs::path beside = find_plugin(named("liba.so", yaml));
  const fs::path below = find_plugin(named("more/liba.so", yaml));
  const fs::path elsewhere = find_plugin(named("libb.so", yaml));
  Value of_command_line("liba.so");
  of_command_line.set_mark({"command line: --plugin"});
  const fs::path given = find_plugin(of_command_line);
  fs::current_path(before);
  CHECK(beside == folder / "yaml/liba.so");
  CHECK(below == folder / "yaml/more/liba.so");
  CHECK(elsewhere == folder / "working/libb.so");
  CHECK(given == folder / "working/liba.so");
}

TEST_CASE("the classes of a plug-in are there after it is loaded, once") {
  load_plugin(LEVIN_TEST_GOOD_PLUGIN, Mark{});
  load_plugin(LEVIN_TEST_GOOD_PLUGIN, Mark{});
  const auto logger = levin::Registry<levin::Logger>::instance().make("FromPlugin", Value());
  REQUIRE(logger);
  CHECK(logger->name() == "from_plugin");
  CHECK_THROWS_AS(levin::Registry<levin::Logger>::instance().make("FromPlugin", Value(Value::Map{{"volume", -1}})),
                  levin::ConfigError);
}

TEST_CASE("a plug-in that cannot be used is an error that says why") {
  const levin::test::TemporaryFolder folder;
  std::ofstream(folder / "text.so") << "no library at all";
  const Mark mark{"run.yaml", 2, 3};
  CHECK_THROWS_WITH(load_plugin(folder / "text.so", mark),
                    Catch::StartsWith("run.yaml:2:3: cannot load the plug-in") && Catch::Contains("text.so"));
  CHECK_THROWS_WITH(load_plugin(LEVIN_TEST_CLASHING_PLUGIN, mark), Catch::Contains("'Taken' is registered twice"));
  CHECK_THROWS_WITH(load_plugin(LEVIN_TEST_IDLE_PLUGIN, mark), Catch::Contains("registers no class"));
}

TEST_CASE("a library that has nothing to do with levin may be a plug-in") {
  CHECK_NOTHROW(load_plugin(LEVIN_TEST_EMPTY_PLUGIN, Mark{}));
}

TEST_CASE("a plug-in for another levin is refused before any of its code runs") {
  REQUIRE(::unsetenv("LEVIN_FORGED_PLUGIN_RAN") == 0);
  CHECK_THROWS_WITH(load_plugin(LEVIN_TEST_FORGED_PLUGIN, Mark{"run.yaml", 2, 3}),
                    Catch::StartsWith("run.yaml:2:3: the plug-in '") && Catch::Contains("built with levin 9.9 instead of") &&
                        Catch::Contains("rebuild it") && !Catch::Contains("\n"));
  CHECK(std::getenv("LEVIN_FORGED_PLUGIN_RAN") == nullptr);
}

TEST_CASE("a plug-in from before stamps is refused before any of its code runs") {
  REQUIRE(::unsetenv("LEVIN_UNSTAMPED_PLUGIN_RAN") == 0);
  CHECK_THROWS_WITH(load_plugin(LEVIN_TEST_UNSTAMPED_PLUGIN, Mark{"run.yaml", 2, 3}),
                    Catch::StartsWith("run.yaml:2:3: the plug-in '") &&
                        Catch::Contains("does not say which levin it was built for; rebuild it"));
  CHECK(std::getenv("LEVIN_UNSTAMPED_PLUGIN_RAN") == nullptr);
}
