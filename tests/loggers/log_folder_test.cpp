#include "levin/loggers/log_folder.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "levin/core/base/error.h"
#include "loggers/csv_table.h"

using levin::make_next_version_folder;
using levin::test::read_text;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

TEST_CASE("the next version is one above the highest") {
  const TemporaryFolder folder;
  CHECK(make_next_version_folder(folder / "logs") == folder / "logs/version_0");
  CHECK(make_next_version_folder(folder / "logs") == folder / "logs/version_1");
  for (const char* name :
       {"version_7", "version_x", "version_", "version_-9", "version_99x", "other", "version_99999999999999999999"}) {
    fs::create_directories(folder / "logs" / name);
  }
  CHECK(make_next_version_folder(folder / "logs") == folder / "logs/version_8");
  fs::remove(folder / "logs/version_1");
  CHECK(make_next_version_folder(folder / "logs") == folder / "logs/version_9");
}

TEST_CASE("runs that start at the same moment get folders of their own") {
  const TemporaryFolder folder;
  constexpr int kRuns = 16;
  std::vector<fs::path> made(kRuns);
  std::vector<std::thread> runs;
  for (fs::path& path : made) runs.emplace_back([&] { path = make_next_version_folder(folder / "logs"); });
  for (std::thread& run : runs) run.join();
  CHECK(std::set<fs::path>(made.begin(), made.end()).size() == kRuns);
}

TEST_CASE("a file in the place of a folder is an error with its path") {
  const TemporaryFolder folder;
  std::ofstream(folder / "logs") << "x";
  CHECK_THROWS_AS(make_next_version_folder(folder / "logs"), levin::IoError);
  CHECK_THROWS_WITH(make_next_version_folder(folder / "logs"), Catch::Contains((folder / "logs").string()));
  CHECK_THROWS_AS(levin::make_folder("/proc/levin"), levin::IoError);
}

TEST_CASE("a file is set aside under the first free name, and written anew only with other content") {
  const TemporaryFolder folder;
  for (const char* text : {"a", "a", "b", "c"}) levin::write_file(folder / "hparams.yaml", text);
  CHECK(read_text(folder / "hparams.yaml") == "c");
  CHECK(read_text(folder / "hparams.yaml.bak-1") == "a");
  CHECK(read_text(folder / "hparams.yaml.bak-2") == "b");
  CHECK(levin::set_aside(folder / "hparams.yaml") == folder / "hparams.yaml.bak-3");
  CHECK_FALSE(fs::exists(folder / "hparams.yaml"));
}
