#include "levin/core/files/written_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "levin/core/files/atomic_file.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::list_of_written_files;
using levin::list_written_files;
using levin::note_written;
using levin::write_file;
using levin::written_files;
using levin::test::read_text;
using levin::test::TemporaryFolder;

namespace {

using Paths = std::vector<fs::path>;

}  // namespace

TEST_CASE("what is written below a folder is listed in it, each file once, and nothing before it is asked for") {
  const TemporaryFolder folder;
  write_file(folder / "before", "x");
  CHECK_FALSE(written_files(folder.path()));
  list_written_files(folder.path());
  CHECK_FALSE(fs::exists(list_of_written_files(folder.path())));  // an empty folder stays empty
  for (int time = 0; time < 2; ++time) write_file(folder / "a/b/file", "x");
  (void)levin::OutputFile::make(folder / "made");
  levin::replace_link(folder / "link", "made");
  note_written(folder / "a/../copied");
  note_written(folder.path().parent_path() / "elsewhere");
  note_written(folder / "two\nlines");  // a list of lines cannot have it
  CHECK(written_files(folder.path()) == Paths{"a/b/file", "copied", "link", "made"});
}

TEST_CASE("the innermost folder has the line, and a later list continues where one ended") {
  const TemporaryFolder folder;
  list_written_files(folder.path());
  list_written_files(folder / "inner");
  write_file(folder / "inner/file", "x");
  write_file(folder / "file", "x");
  CHECK(written_files(folder.path()) == Paths{"file"});
  CHECK(written_files(folder / "inner") == Paths{"file"});
  list_written_files(folder / "inner");
  write_file(folder / "inner/file", "y");
  write_file(folder / "inner/other", "y");
  CHECK(written_files(folder / "inner") == Paths{"file", "other"});
  // Its title, and two files.
  const std::string text = read_text(list_of_written_files(folder / "inner"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
}

TEST_CASE("a file that is set aside is still the run's; one of others is not") {
  const TemporaryFolder folder;
  const auto name = [](const std::string& base) { return [base](int number) { return base + std::to_string(number); }; };
  write_file(folder / "theirs", "x");
  list_written_files(folder.path());
  write_file(folder / "own", "x");
  levin::write_file_with_backup(folder / "own", "y", name("own_"));
  levin::write_file_with_backup(folder / "theirs", "y", name("theirs_"));
  CHECK(written_files(folder.path()) == Paths{"own", "own_1", "theirs"});
  CHECK(fs::exists(folder / "theirs_1"));
}

TEST_CASE("a file of others with the list's name is left alone, and lists that lead out of the folder are not heeded") {
  const TemporaryFolder folder;
  std::ofstream(list_of_written_files(folder.path())) << "my own notes\n";
  list_written_files(folder.path());
  write_file(folder / "file", "x");
  CHECK_FALSE(written_files(folder.path()));
  CHECK(read_text(list_of_written_files(folder.path())) == "my own notes\n");

  list_written_files(folder / "run");
  write_file(folder / "run/file", "x");
  std::ofstream(list_of_written_files(folder / "run"), std::ios::app) << "../file\n/etc/passwd\na/../../file\n";
  CHECK(written_files(folder / "run") == Paths{"file"});
}

TEST_CASE("a list that another rank has begun, and not yet written to, is taken") {
  const TemporaryFolder folder;
  std::ofstream(list_of_written_files(folder.path())).close();
  list_written_files(folder.path());
  note_written(folder / "a");
  CHECK(written_files(folder.path()) == Paths{"a"});
}

TEST_CASE("ranks that write at one moment share a list") {
  const TemporaryFolder folder;
  constexpr int kRanks = 4, kFiles = 50;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(fork());
    if (ranks.back() != 0) continue;
    list_written_files(folder.path());
    for (int file = 0; file < kFiles; ++file) note_written(folder / (std::to_string(rank) + "_" + std::to_string(file)));
    _exit(0);
  }
  for (const pid_t rank : ranks) REQUIRE(waitpid(rank, nullptr, 0) == rank);
  REQUIRE(written_files(folder.path()));
  CHECK(written_files(folder.path())->size() == kRanks * kFiles);
}

TEST_CASE("a folder goes where only its list and some named files are in it") {
  const TemporaryFolder folder;
  list_written_files(folder / "run");
  write_file(folder / "run/run.json", "x");
  CHECK_FALSE(levin::remove_unused_folder(folder / "run"));
  std::ofstream(folder / "run/other") << "x";
  CHECK_FALSE(levin::remove_unused_folder(folder / "run", {"run.json"}));
  CHECK(fs::exists(folder / "run/run.json"));
  fs::remove(folder / "run/other");
  CHECK(levin::remove_unused_folder(folder / "run", {"run.json"}));
  CHECK_FALSE(fs::exists(folder / "run"));
}
