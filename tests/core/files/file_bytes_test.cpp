#include "levin/core/files/file_bytes.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <filesystem>

#include "levin/core/files/atomic_file.h"
#include "support/temporary_folder.h"

namespace fs = std::filesystem;
using levin::file_bytes;
using levin::first_bytes;
using levin::Links;
using levin::test::TemporaryFolder;

TEST_CASE("the bytes of a plain file are read, up to a length") {
  const TemporaryFolder folder;
  levin::write_file(folder / "file", "content");
  CHECK(file_bytes(folder / "file") == "content");
  CHECK(file_bytes(folder / "file", 7) == "content");
  CHECK_FALSE(file_bytes(folder / "file", 6));
  CHECK(first_bytes(folder / "file", 3) == "con");
  CHECK(first_bytes(folder / "file", 100) == "content");
  levin::write_file(folder / "empty", "");
  CHECK(file_bytes(folder / "empty") == "");
}

TEST_CASE("what is no plain file is not read, and nothing waits for it") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", folder / "endless");
  for (const fs::path& path : {folder / "fifo", folder / "endless", folder / "none", folder.path(), fs::path("/dev/zero")}) {
    CHECK_FALSE(file_bytes(path));
    CHECK(first_bytes(path, 10).empty());
  }
  CHECK_FALSE(levin::open_plain_file(folder / "fifo").is_open());
  CHECK(levin::why_not_opened(errno) == "it is not a regular file");
  CHECK_FALSE(levin::open_plain_file(folder / "none").is_open());
  CHECK(levin::why_not_opened(errno) == "No such file or directory");
}

TEST_CASE("a link is followed, or refused") {
  const TemporaryFolder folder;
  levin::write_file(folder / "file", "content");
  fs::create_symlink("file", folder / "link");
  CHECK(file_bytes(folder / "link") == "content");
  CHECK_FALSE(file_bytes(folder / "link", 100, Links::kRefused));
  CHECK(levin::why_not_opened(errno) == "it is a symbolic link, which is not followed");
}
