#include "levin/core/files/atomic_file.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "levin/core/files/paths.h"
#include "support/temporary_folder.h"

using levin::AtomicFile;
using levin::remove_abandoned;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

std::ptrdiff_t entries(const fs::path& folder) { return std::distance(fs::directory_iterator(folder), {}); }

void make(const fs::path& file, std::chrono::hours age = {}) {
  std::ofstream(file) << "x";
  fs::last_write_time(file, fs::file_time_type::clock::now() - age);
}

// A process that is in the middle of writing a file; gives it when the temporary is there.
pid_t start_writer(const fs::path& file) {
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t process = fork();
  if (process == 0) {
    AtomicFile output(file);
    output.write("half");
    if (write(ready[1], "r", 1) != 1) _exit(1);
    pause();
    _exit(1);
  }
  char byte = 0;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  return process;
}

}  // namespace

TEST_CASE("what a killed process left is removed; what a living one writes is not") {
  const TemporaryFolder folder;
  const pid_t living = start_writer(folder / "a");
  const pid_t killed = start_writer(folder / "b");
  CHECK(entries(folder.path()) == 2);
  kill(killed, SIGKILL);
  REQUIRE(waitpid(killed, nullptr, 0) == killed);
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 1);
  kill(living, SIGKILL);
  REQUIRE(waitpid(living, nullptr, 0) == living);
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 0);
}

TEST_CASE("the first file that a process writes to a folder takes the abandoned ones away") {
  const TemporaryFolder folder;
  make(folder / (".levin-1-2-" + levin::temporary_host() + ".tmp"));
  AtomicFile output(folder / "file");
  output.write("x");
  output.commit();
  CHECK(entries(folder.path()) == 1);
  CHECK(fs::exists(folder / "file"));
}

TEST_CASE("a file of this process that is being written stays, whoever looks for abandoned ones") {
  const TemporaryFolder folder;
  AtomicFile output(folder / "file");
  output.write("x");
  remove_abandoned(folder.path());
  output.commit();
  CHECK(fs::exists(folder / "file"));
}

TEST_CASE("another machine's files stay for a day, and other files for ever") {
  const TemporaryFolder folder;
  using std::chrono::hours;
  make(folder / ".levin-1-2-another-host.tmp", hours(23));
  make(folder / ".levin-1-2.tmp", hours(23));
  for (const char* name : {"last.ckpt", ".levin-notes.tmp", "levin-1-2-host.tmp"}) make(folder / name, hours(1000));
  fs::create_directory(folder / (".levin-1-2-" + levin::temporary_host() + ".tmp"));
  fs::create_symlink(folder / "last.ckpt", folder / (".levin-3-4-" + levin::temporary_host() + ".tmp"));
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 7);

  make(folder / ".levin-1-2-another-host.tmp", hours(25));
  make(folder / ".levin-1-2.tmp", hours(25));
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 5);
  remove_abandoned(folder / "missing");
}
