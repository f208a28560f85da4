#include "levin/cli/config/plugin_loader.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "levin/core/config/registry.h"
#include "levin/core/headers_hash.h"
#include "levin/core/logger.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

namespace fs = std::filesystem;

namespace {

Value named(const std::string& name, const std::string& yaml_file) {
  Value value(name);
  value.set_mark({yaml_file, 3, 5});
  return value;
}

/// A library's bytes with a stamp in their midst.
std::string library_with(const std::string& stamp) {
  return std::string(
             "\x7f"
             "ELF\0code",
             9) +
         stamp + std::string("\0more", 5);
}

std::string stamp(const std::string& levin, const std::string& torch, const std::string& cxx11, const std::string& abi) {
  return "levin-plug-in{levin=" + levin + ";headers=" LEVIN_HEADERS_HASH ";torch=" + torch + ";cxx11_abi=" + cxx11 +
         ";cxx_abi=" + abi + ";compiler=c++ 9}";
}

}  // namespace

TEST_CASE("a plug-in is found as written and next to the file that names it") {
  const TemporaryFolder folder;
  std::ofstream(folder / "libmine.so") << "";
  CHECK(find_plugin(named((folder / "libmine.so").string(), "run.yaml")) == folder / "libmine.so");
  CHECK(find_plugin(named("libmine.so", (folder / "run.yaml").string())) == folder / "libmine.so");
  CHECK_THROWS_WITH(find_plugin(named("libother.so", (folder / "run.yaml").string())),
                    Catch::Contains("run.yaml:3:5: there is no plug-in 'libother.so'") &&
                        Catch::Contains((folder / "libother.so").string()) && Catch::Contains("lib/levin/plugins/libother.so"));
  CHECK_THROWS_WITH(find_plugin(named(folder.path(), "run.yaml")), Catch::Contains("there is no plug-in"));
  CHECK_THROWS_WITH(find_plugin(named("", "run.yaml")), Catch::Contains("empty"));
  CHECK_THROWS_AS(find_plugin(Value(1.5)), ConfigError);
}

TEST_CASE("a plug-in next to the file that names it goes before one in the working folder") {
  const TemporaryFolder folder;
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
  const auto logger = Registry<Logger>::instance().make("FromPlugin", Value());
  REQUIRE(logger);
  CHECK(logger->name() == "from_plugin");
  CHECK_THROWS_AS(Registry<Logger>::instance().make("FromPlugin", Value(Value::Map{{"volume", -1}})), ConfigError);
}

TEST_CASE("a plug-in that cannot be used is an error that says why") {
  const TemporaryFolder folder;
  std::ofstream(folder / "text.so") << "no library at all";
  const Mark mark{"run.yaml", 2, 3};
  CHECK_THROWS_WITH(load_plugin(folder / "text.so", mark),
                    Catch::StartsWith("run.yaml:2:3: cannot load the plug-in") && Catch::Contains("text.so"));
  CHECK_THROWS_WITH(load_plugin(LEVIN_TEST_CLASHING_PLUGIN, mark), Catch::Contains("'Taken' is registered twice"));
  CHECK_THROWS_WITH(load_plugin(LEVIN_TEST_IDLE_PLUGIN, mark), Catch::Contains("registers no class"));
  CHECK_NOTHROW(load_plugin(LEVIN_TEST_EMPTY_PLUGIN, Mark{}));  // it has nothing to do with levin
}

TEST_CASE("a plug-in for another levin, or from before stamps, is refused before any of its code runs") {
  const auto [plugin, variable, text] = GENERATE(table<std::string, const char*, std::string>(
      {{LEVIN_TEST_FORGED_PLUGIN, "LEVIN_FORGED_PLUGIN_RAN", "built with levin 9.9 instead of"},
       {LEVIN_TEST_UNSTAMPED_PLUGIN, "LEVIN_UNSTAMPED_PLUGIN_RAN", "has no stamp of the levin that it was built for"}}));
  REQUIRE(::unsetenv(variable) == 0);
  CHECK_THROWS_WITH(load_plugin(plugin, Mark{"run.yaml", 2, 3}), Catch::StartsWith("run.yaml:2:3: the plug-in '") &&
                                                                     Catch::Contains(text) && Catch::Contains("rebuild it") &&
                                                                     !Catch::Contains("\n"));
  CHECK(std::getenv(variable) == nullptr);
}

TEST_CASE("a library without a stamp is not levin's, unless it asks for the registry") {
  for (const std::string& text :
       {std::string(), std::string("levin"), library_with("levin-plug-in{cut off"), library_with("_ZN5levin5ErrorD1Ev"),
        library_with("_ZN5levin8RegistryINS_6LoggerEE8instanceEv")}) {
    const StampCheck check = check_stamps_in(text);
    CHECK_FALSE(check.stamped);
    CHECK(check.misfit.empty());
    CHECK(check.registers == (text.find("Registry") != std::string::npos));
  }
  CHECK_FALSE(check_stamps("/nowhere/libmine.so").stamped);
}

TEST_CASE("a plug-in of this levin and this LibTorch fits, whatever compiled it") {
  const std::string torch = LEVIN_TEST_TORCH_VERSION;
  for (const std::string& text : {stamp(LEVIN_ABI_VERSION, torch, "1", "1017"), stamp(LEVIN_ABI_VERSION, torch, "1", "1002"),
                                  stamp(LEVIN_ABI_VERSION, "", "1", "1019")}) {
    INFO(text);
    const StampCheck check = check_stamps_in(library_with(text));
    CHECK(check.stamped);
    CHECK(check.misfit.empty());
  }
}

TEST_CASE("an error about a plug-in that does not fit says what differs, and what to rebuild it with") {
  const std::string torch = LEVIN_TEST_TORCH_VERSION;
  const std::string rebuild = " (by c++ 9); rebuild it with the headers of this levin " LEVIN_ABI_VERSION ", LibTorch " +
                              torch + " and a compiler compatible with " LEVIN_COMPILER;
  const auto misfit = [](const std::string& text) { return check_stamps_in(library_with(text)).misfit; };
  CHECK(misfit(stamp("9.9", torch, "1", "1017")) == "was built with levin 9.9 instead of " LEVIN_ABI_VERSION + rebuild);
  CHECK(misfit(stamp(LEVIN_ABI_VERSION, "1.2.3", "0", "1017")) ==
        "was built with LibTorch 1.2.3 instead of " + torch + ", _GLIBCXX_USE_CXX11_ABI 0 instead of 1" + rebuild);
  CHECK(misfit(stamp(LEVIN_ABI_VERSION, torch, "1", "2017")).find("C++ ABI 2017 instead of ") != std::string::npos);
  const std::string other_headers = "levin-plug-in{levin=" LEVIN_ABI_VERSION ";headers=0123456789abcdef;torch=" + torch +
                                    ";cxx11_abi=1;cxx_abi=1017;compiler=c++ 9}";
  CHECK(misfit(other_headers) == "was built with other headers of levin " LEVIN_ABI_VERSION + rebuild);
  // From before headers were told.
  CHECK(misfit("levin-plug-in{levin=" LEVIN_ABI_VERSION ";torch=" + torch + ";cxx11_abi=1;cxx_abi=1017;compiler=c++ 9}") ==
        "was built with other headers of levin " LEVIN_ABI_VERSION + rebuild);
  // One source of several was compiled elsewhere.
  CHECK(misfit(stamp(LEVIN_ABI_VERSION, torch, "1", "1017") + stamp("9.9", torch, "1", "1017")).find("levin 9.9") !=
        std::string::npos);
}

TEST_CASE("stamps are read from a file") {
  const TemporaryFolder folder;
  std::ofstream(folder / "libmine.so") << library_with(stamp("9.9", "", "1", "1017"));
  std::ofstream(folder / "empty.so");
  CHECK(check_stamps(folder / "libmine.so").misfit.find("levin 9.9") != std::string::npos);
  CHECK_FALSE(check_stamps(folder / "empty.so").stamped);
}

TEST_CASE("a part that was compiled without optimization is found") {
  const std::string fits = stamp(LEVIN_ABI_VERSION, LEVIN_TEST_TORCH_VERSION, "1", "1017");
  const auto with = [&](const std::string& optimization) {
    return fits.substr(0, fits.size() - 1) + ";optimization=" + optimization + "}";
  };
  CHECK(check_stamps_in(fits).optimized);
  CHECK(check_stamps_in(with("on")).optimized);
  CHECK_FALSE(check_stamps_in(with("on") + with("off") + with("on")).optimized);
  CHECK(check_stamps_in(with("off")).misfit.empty());
}
