#include "levin/data/read_file.h"

#include <sys/stat.h>
#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "levin/core/base/error.h"
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
