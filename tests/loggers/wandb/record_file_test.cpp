#include "levin/loggers/wandb/record_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/loggers/wandb/digest.h"
#include "support/file_text.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::test;
using wandb::RecordFile;
using wandb::RecordReader;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> records_in(const fs::path& file) {
  std::vector<std::string> records;
  RecordReader reader(file);
  for (std::string record; reader.next(record);) records.push_back(record);
  return records;
}

/// So many bytes, of which none is like its neighbours.
std::string bytes(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 251);
  return text;
}

void write(const fs::path& file, const std::vector<std::string>& records) {
  RecordFile written(file);
  for (const std::string& record : records) written.add(record);
}

}  // namespace

TEST_CASE("a record is what W&B's own programs write") {
  const TemporaryFolder folder;
  write(folder / "run.wandb", {"levin"});
  // CRC-32 of the part's number and the bytes, as zlib in Python gives it.
  CHECK(read_text(folder / "run.wandb") == std::string(":W&B\xe1\xbe\x00\x28\x67\xed\x64\x05\x00\x01levin", 19));
}

TEST_CASE("records of any length come back, wherever blocks end") {
  const TemporaryFolder folder;
  int files = 0;
  // The first block ends 32768 - 7 - 7 bytes into the first record; from 8 bytes before, its neighbour has no room there.
  for (std::size_t size = 32768 - 7 - 7 - 16; size < 32768 - 7 - 7 + 16; ++size) {
    const std::vector<std::string> records = {bytes(size), "", bytes(3), bytes(2 * 32768 + size), "end"};
    const fs::path file = folder / std::to_string(++files);
    write(file, records);
    CHECK((records_in(file) == records));  // not shown: it is long
  }
}

TEST_CASE("of a file that ends anywhere, the whole records count") {
  const TemporaryFolder folder;
  const std::vector<std::string> records = {bytes(20), bytes(32768), bytes(10)};
  write(folder / "whole", records);
  const std::string whole = read_text(folder / "whole");
  const std::vector<std::size_t> ends = {7 + 7 + 20, whole.size() - 17, whole.size()};
  for (std::size_t size = 0; size <= whole.size(); size += size > 60 && size + 60 < whole.size() ? 97 : 1) {
    std::ofstream(folder / "torn", std::ios::binary) << whole.substr(0, size);
    const auto expected = static_cast<std::size_t>(std::ranges::count_if(ends, [&](std::size_t end) { return end <= size; }));
    CHECK(records_in(folder / "torn").size() == expected);
  }
}

TEST_CASE("reading ends before a record that is damaged") {
  const TemporaryFolder folder;
  write(folder / "whole", {bytes(20), bytes(20), bytes(20)});
  const std::string whole = read_text(folder / "whole");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    std::ofstream(folder / "damaged", std::ios::binary) << damaged;
    CHECK(records_in(folder / "damaged").size() == (at < 7 ? 0 : (at - 7) / 27));
  }
}

TEST_CASE("what is no run file has no records, and what is not there is an error") {
  const TemporaryFolder folder;
  std::ofstream(folder / "notes") << "notes of a person's, which are no run";
  CHECK(records_in(folder / "notes").empty());
  CHECK_THROWS_WITH(records_in(folder / "missing"), Catch::Contains("No such file"));
}

TEST_CASE("a FIFO, a device or a folder is no run file, and is not waited for") {
  const TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("/dev/zero", folder / "zeros");
  fs::create_directory(folder / "folder");
  for (const char* name : {"fifo", "zeros"})
    CHECK_THROWS_WITH(records_in(folder / name), Catch::Contains("not a regular file"));
  CHECK_THROWS_WITH(records_in(folder / "folder"), Catch::Contains("Is a directory"));
}

TEST_CASE("SHA-256 is that of FIPS 180-4") {
  CHECK(wandb::sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(wandb::sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(wandb::sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(wandb::sha256(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
