#include "levin/core/files/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <fstream>

#include "levin/core/base/error.h"
#include "levin/core/files/descriptor.h"
#include "levin/core/files/paths.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;

namespace fs = std::filesystem;

namespace {

void write(const fs::path& file, const std::string& text) {
  AtomicFile output(file);
  output.write(text);
  output.commit();
}

bool closing_fails = false;

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
    if (::write(ready[1], "r", 1) != 1) _exit(1);
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

/// In place of the C library's: as a file system over a network, which has no room left and says so here.
extern "C" __attribute__((visibility("default"))) int close(int descriptor) {
  const auto result = static_cast<int>(syscall(SYS_close, descriptor));
  if (!closing_fails) return result;
  errno = ENOSPC;
  return -1;
}

TEST_CASE(
    "a file takes its name when it is complete, and not before, nor when a file system refuses its bytes as it is closed") {
  const TemporaryFolder folder;
  write(folder / "made/file", "one");
  CHECK(read_text(folder / "made/file") == "one");
  {
    AtomicFile output(folder / "made/file");
    output.write("two");
    CHECK(read_text(folder / "made/file") == "one");
    CHECK(entries(folder / "made") == 2);
    closing_fails = true;
    CHECK_THROWS_WITH(output.commit(AtomicFile::Disk::kLeaveToKernel),
                      Catch::Contains("No space left on device") && Catch::Contains("is unchanged"));
    closing_fails = false;
  }
  CHECK(read_text(folder / "made/file") == "one");
  CHECK(entries(folder / "made") == 1);
}

TEST_CASE("a folder that is missing is made, or refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(AtomicFile(folder / "missing/file", AtomicFile::MissingFolder::kRefuse), IoError);
  CHECK_FALSE(fs::exists(folder / "missing"));
  fs::create_directory(folder / "folder");
  CHECK_THROWS_WITH(AtomicFile(folder / "folder"), Catch::Contains("Is a directory"));
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a link of the file's name is replaced, and what it leads to stays") {
  const TemporaryFolder folder;
  std::ofstream(folder / "victim") << "precious";
  fs::create_symlink(folder / "victim", folder / "file");
  write(folder / "file", "new");
  CHECK(read_text(folder / "victim") == "precious");
  CHECK(read_text(folder / "file") == "new");
  CHECK_FALSE(fs::is_symlink(folder / "file"));
}

TEST_CASE("what was written can be written over, and sent to the disk ahead") {
  const TemporaryFolder folder;
  {
    AtomicFile output(folder / "file");
    output.write("??: ");
    output.send_to_disk();
    output.write("content");
    output.write_at(0, "ok");
    output.commit();
  }
  CHECK(read_text(folder / "file") == "ok: content");
}

TEST_CASE("a file that has its name can be written on") {
  const TemporaryFolder folder;
  AtomicFile output(folder / "file");
  output.write("one");
  output.commit();
  OutputFile file = output.take();
  file.write_at(3, " and two");
  CHECK(read_text(folder / "file") == "one and two");
  CHECK(file.is_in_place());
  fs::rename(folder / "file", folder / "other");
  CHECK_FALSE(file.is_in_place());
  std::ofstream(folder / "file") << "another";
  CHECK_FALSE(file.is_in_place());
}

TEST_CASE("a text is appended behind what others have added, whole or not at all") {
  const TemporaryFolder folder;
  OutputFile file = OutputFile::make(folder / "file");
  file.append("one,");
  std::ofstream(folder / "file", std::ios::app) << "another,";
  file.append("two");
  CHECK(read_text(folder / "file") == "one,another,two");
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  CHECK_THROWS_WITH(file.append(",longer than that"), Catch::Contains("cannot write " + (folder / "file").string()));
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  CHECK(read_text(folder / "file") == "one,another,two");
}

TEST_CASE("a file is made, not opened") {
  const TemporaryFolder folder;
  std::ofstream(folder / "victim") << "precious";
  fs::create_symlink(folder / "victim", folder / "link");
  CHECK_THROWS_WITH(OutputFile::make(folder / "link"), "cannot make " + (folder / "link").string() + ": File exists");
  CHECK_THROWS_AS(OutputFile::make(folder / "victim"), IoError);
  CHECK(read_text(folder / "victim") == "precious");
}

TEST_CASE("a link is replaced in one step, and its temporary does not stay") {
  const TemporaryFolder folder;
  replace_link(folder / "link", "first");
  replace_link(folder / "link", "second");
  CHECK(fs::read_symlink(folder / "link") == "second");
  CHECK(entries(folder.path()) == 1);
  fs::create_directory(folder / "folder");
  std::ofstream(folder / "folder/file") << "x";
  CHECK_THROWS_WITH(replace_link(folder / "folder", "x"), Catch::Contains("Could not make " + (folder / "folder").string()));
  CHECK(entries(folder.path()) == 2);
}

TEST_CASE("temporary names say which machine made them") {
  CHECK(host_of_temporary(temporary_in("x").filename().string()) == temporary_host());
  CHECK(host_of_temporary(".levin-12-345-apollo-11.tmp") == "apollo-11");
  CHECK(host_of_temporary(".levin-12-345.tmp") == "");
  for (const char* name : {"x.tmp", ".levin-.tmp", ".levin-1.tmp", ".levin-a-1-host.tmp", ".levin-1-2-host", ".levin.tmp"}) {
    CHECK_FALSE(host_of_temporary(name));
  }
}

TEST_CASE("what a killed process left is removed; what a living one writes is not") {
  const TemporaryFolder folder;
  const pid_t living = start_writer(folder / "a");
  const pid_t killed = start_writer(folder / "b");
  AtomicFile own(folder / "c");
  CHECK(entries(folder.path()) == 3);
  kill(killed, SIGKILL);
  REQUIRE(waitpid(killed, nullptr, 0) == killed);
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 2);
  kill(living, SIGKILL);
  REQUIRE(waitpid(living, nullptr, 0) == living);
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 1);
  own.commit();
  CHECK(fs::exists(folder / "c"));
}

TEST_CASE("another machine's files stay for a day, and other files for ever") {
  const TemporaryFolder folder;
  using std::chrono::hours;
  make(folder / ".levin-1-2-another-host.tmp", hours(23));
  make(folder / ".levin-1-2.tmp", hours(23));
  for (const char* name : {"last.ckpt", ".levin-notes.tmp", "levin-1-2-host.tmp"}) make(folder / name, hours(1000));
  fs::create_directory(folder / (".levin-1-2-" + temporary_host() + ".tmp"));
  fs::create_symlink(folder / "last.ckpt", folder / (".levin-3-4-" + temporary_host() + ".tmp"));
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 7);

  make(folder / ".levin-1-2-another-host.tmp", hours(25));
  make(folder / ".levin-1-2.tmp", hours(25));
  remove_abandoned(folder.path());
  CHECK(entries(folder.path()) == 5);
  remove_abandoned(folder / "missing");
}

TEST_CASE("a FIFO takes the bytes and stays one, and without a reader it is an error and no wait") {
  const TemporaryFolder folder;
  const fs::path fifo = folder / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(write_file(fifo, "lost"), Catch::StartsWith("Cannot write to '" + fifo.string()));
  const Descriptor reader(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader.is_open());
  write_file(fifo, "taken");
  write_file_with_backup(fifo, " twice", [](int) { return "backup"; });
  std::string text(64, '\0');
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(reader.number(), text.data(), text.size()))));
  CHECK(text == "taken twice");
  CHECK(fs::is_fifo(fifo));
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("a device takes the bytes and stays one") {
  const TemporaryFolder folder;
  const fs::path null = folder / "null";
  if (mknod(null.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0) return;  // only root may make one
  const Descriptor opened(open(null.c_str(), O_WRONLY | O_CLOEXEC));
  if (!opened.is_open()) return;  // a disk without devices
  {
    AtomicFile output(null);
    output.write("??: gone");
    output.write_at(0, "ok");
    output.commit();
  }
  CHECK(fs::is_character_file(null));
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("the names of open files are never replaced: what is written comes behind what they have") {
  const TemporaryFolder folder;
  const Descriptor file(open((folder / "out.txt").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(::write(file.number(), "one ", 4) == 4);
  write_file("/proc/self/fd/" + std::to_string(file.number()), "two ");
  write_file("/dev/fd/" + std::to_string(file.number()), "three");
  CHECK(read_text(folder / "out.txt") == "one two three");
  CHECK(entries(folder.path()) == 1);
}
