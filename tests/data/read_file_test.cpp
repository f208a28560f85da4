#include "levin/data/read_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "levin/core/base/error.h"
#include "levin/data/input_file.h"
#include "support/temporary_folder.h"

using Catch::Matchers::Contains;

TEST_CASE("a compressed file may expand to 64 MiB, and beyond as far as the caller allows") {
  const levin::test::TemporaryFolder folder;
  const std::filesystem::path file = folder / "zeros.gz";
  const std::string block(1 << 20, '\0');
  const auto write = [&](int blocks) {
    const gzFile stream = gzopen(file.c_str(), "wb");
    for (int written = 0; written < blocks; ++written) gzwrite(stream, block.data(), static_cast<unsigned>(block.size()));
    gzclose(stream);
  };
  write(64);
  REQUIRE(levin::read_input_file(file).size() == 64u << 20);
  write(70);
  REQUIRE_THROWS_AS(levin::read_input_file(file), levin::IoError);
  REQUIRE_THROWS_WITH(levin::read_input_file(file), Contains("zeros.gz") && Contains("max_expansion"));
  REQUIRE(levin::read_input_file(file, 1100).size() == 70u << 20);
}

TEST_CASE("data is read from files only") {
  const levin::test::TemporaryFolder folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  REQUIRE_THROWS_WITH(levin::read_input_file(folder / "pipe"), Contains("it is a pipe"));
  REQUIRE_THROWS_WITH(levin::read_input_file("/dev/null"), Contains("it is a device"));
  REQUIRE_THROWS_WITH(levin::read_input_file(folder.path()), Contains("it is a folder"));
  REQUIRE_THROWS_WITH(levin::read_input_file(folder / "nothing"), Contains("No such file"));
}

TEST_CASE("zstd files are read by their bytes, whatever their names are, and several frames are one content") {
  const levin::test::TemporaryFolder folder;
  if (std::system("zstd --version >/dev/null 2>&1") != 0) {
    WARN("Not tested: zstd (install zstd)");
    return;
  }
  const auto run = [&](const std::string& command) {
    INFO(command);
    REQUIRE(std::system(("cd " + folder.path().string() + " && " + command).c_str()) == 0);
  };
  run("for i in $(seq 300000); do echo $i,$((i * i)); done >plain; head -c 1000 plain >head; tail -c +1001 plain >tail");
  const std::string expected = levin::read_input_file(folder / "plain");
  REQUIRE(expected.size() > 3'000'000);
  run("zstd -q plain -o one.zst; cp one.zst name.csv; zstd -q head; zstd -q -19 tail; cat head.zst tail.zst >frames.zst");
  // A frame to pass over, first, and behind.
  run("{ printf 'P*M\\030\\003\\000\\000\\000abc'; cat frames.zst; printf '_*M\\030\\000\\000\\000\\000'; } >passed.zst");
  run("cp plain plain.zst");
  run("zstd -q -c /dev/null >nothing.zst; : >empty.zst; gzip -c plain >plain.gz; gzip -c head >two.gz; gzip -c tail >>two.gz");
  run("{ cat two.gz; head -c 600 /dev/zero; } >tape.gz");
  for (const char* name : {"one.zst", "name.csv", "frames.zst", "passed.zst", "plain.zst", "plain.gz", "two.gz", "tape.gz"}) {
    INFO(name);
    CHECK((levin::read_input_file(folder / name) == expected));  // without the whole text in the message
  }
  CHECK(levin::read_input_file(folder / "nothing.zst").empty());
  CHECK(levin::read_input_file(folder / "empty.zst").empty());

  const auto read_of = [&](const std::string& commands) {
    run(commands);
    return levin::read_input_file(folder / "bad");
  };
  CHECK_THROWS_WITH(read_of("head -c 5000 one.zst >bad"),
                    Contains("bad: cannot be read") && Contains("ends too early, after 5000 bytes"));
  CHECK_THROWS_WITH(read_of("head -c 4 one.zst >bad"), Contains("ends too early"));
  CHECK_THROWS_WITH(read_of("{ cat head.zst; head -c 3 tail.zst; } >bad"), Contains("ends too early"));
  CHECK_THROWS_WITH(read_of("{ cat one.zst; echo rubbish; } >bad"), Contains("is damaged before byte"));
  CHECK_THROWS_WITH(read_of("cp one.zst bad; printf xxxx | dd of=bad bs=1 seek=30000 conv=notrunc status=none"),
                    Contains("is damaged before byte"));
  CHECK_THROWS_WITH(read_of("head -c 2000 plain.gz >bad"), Contains("ends too early, after 2000 bytes"));
  CHECK_THROWS_WITH(read_of("cp plain.gz bad; printf xxxx | dd of=bad bs=1 seek=30000 conv=notrunc status=none"),
                    Contains("is damaged before byte"));
  CHECK_THROWS_WITH(read_of("head -c 300000000 /dev/zero | zstd -q -19 >bad"), Contains("max_expansion"));
  CHECK_THROWS_WITH(read_of("cat head | zstd -q --zstd=wlog=28 >bad"), Contains("more than 128 MiB of memory"));
  run("head -c 300000000 /dev/zero | zstd -q -1 >large.zst");
  CHECK(levin::read_input_file(folder / "large.zst", 1e9).size() == 300'000'000);
}

TEST_CASE("a file's name loses the ending of its compression alone") {
  CHECK(levin::without_compression_ending("a/b.csv.gz") == "a/b.csv");
  CHECK(levin::without_compression_ending("b.jsonl.zst") == "b.jsonl");
  CHECK(levin::without_compression_ending("b.csv") == "b.csv");
  CHECK(levin::without_compression_ending(".gz") == ".gz");
}
