#include "levin/cli/runs/run_removal.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/written_files.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::IoError;
using levin::list_written_files;
using levin::note_written;
using levin::write_file;
using levin::cli::contents_of_run;
using levin::cli::remove_run_files;
using levin::cli::RunContents;
using levin::test::error_of;
using levin::test::TemporaryFolder;

namespace {

using Paths = std::vector<fs::path>;

void write_run(const fs::path& run) {
  list_written_files(run);
  for (const char* name : {"run.json", "metrics.csv", "checkpoints/last.ckpt", "media/texts/note/000001.txt", "gone"})
    write_file(run / name, "x");
  fs::remove(run / "gone");
}

void write_of_user(const fs::path& file) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << "precious";
}

void remove_all_own(const fs::path& run) { remove_run_files(run, contents_of_run(run)); }

}  // namespace

TEST_CASE("a run goes with its folder, and with what a killed process of it has left") {
  const TemporaryFolder folder;
  const fs::path run = folder / "version_0";
  write_run(run);
  std::ofstream(levin::temporary_in(run / "checkpoints")) << "half";
  CHECK(contents_of_run(run).others.empty());
  CHECK(contents_of_run(run).own.size() == 6);  // its list is one of them
  remove_all_own(run);
  CHECK_FALSE(fs::exists(run));
}

TEST_CASE("what somebody else has put into a run's folder stays, and is told") {
  const TemporaryFolder folder;
  const fs::path run = folder / "version_0";
  write_run(run);
  write_of_user(run / "notes.txt");
  write_of_user(run / "checkpoints/renamed.ckpt");
  fs::create_directories(run / "empty");
  CHECK(contents_of_run(run).others == Paths{"checkpoints/renamed.ckpt", "notes.txt"});
  remove_all_own(run);
  CHECK(fs::exists(run / "notes.txt"));
  CHECK(fs::exists(run / "checkpoints/renamed.ckpt"));
  CHECK(fs::exists(run / "empty"));
  CHECK_FALSE(fs::exists(run / "media"));
  CHECK_FALSE(fs::exists(run / "run.json"));
  CHECK_FALSE(fs::exists(levin::list_of_written_files(run)));
}

TEST_CASE("a link in a run's folder is not followed") {
  const TemporaryFolder folder;
  const fs::path run = folder / "version_0";
  write_of_user(folder / "elsewhere/file");
  write_run(run);
  fs::create_directory_symlink(folder / "elsewhere", run / "linked");
  note_written(run / "linked/file");
  levin::replace_link(run / "newest", folder / "elsewhere/file");
  CHECK(contents_of_run(run).others == Paths{"linked"});
  remove_all_own(run);
  CHECK(fs::exists(folder / "elsewhere/file"));
  CHECK(fs::is_symlink(run / "linked"));
  CHECK_FALSE(fs::is_symlink(run / "newest"));
}

TEST_CASE("a folder without a list is nobody's to delete") {
  const TemporaryFolder folder;
  write_of_user(folder / "project/metrics.csv");
  write_of_user(folder / "project/run.json");
  CHECK_THAT(error_of<IoError>([&] { contents_of_run(folder / "project"); }),
             Catch::Contains("project' has no list of the files that its run wrote (run_files.txt)"));
}
