#include "levin/cli/report/watched_files.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

using levin::write_file;
using levin::cli::FileStates;
using levin::cli::watched_files;
using levin::test::TemporaryFolder;

TEST_CASE("a report follows what runs write, and not itself or another page among them") {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder / "version_0";
  write_file(run / "metrics.csv", "step,loss\n");
  write_file(run / "media/texts/a/1.txt", "text");
  levin::cli::RunFolder of_run;
  of_run.path = run;
  const auto watched = [&] { return watched_files({of_run}, run / "media/page.txt"); };
  const FileStates before = watched();
  CHECK(before.size() == 2);
  write_file(run / "media/page.txt", "a page");
  write_file(run / "report.html", "another page");
  std::ofstream(levin::temporary_in(run)) << "half a page";
  CHECK(watched() == before);
  write_file(run / "media/page.txt", "a longer page");
  CHECK(watched() == before);
  std::ofstream(run / "metrics.csv", std::ios::app) << "0,1\n";
  CHECK(watched() != before);
}
