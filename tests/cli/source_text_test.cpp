#include "levin/cli/source_text.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "support/temporary_folder.h"

using levin::cli::SourceText;
namespace fs = std::filesystem;

TEST_CASE("lines are found whatever ends them") {
  const SourceText source("a.yaml", "one\ntwo\r\nthree\rfour");
  CHECK(source.line(1) == "one");
  CHECK(source.line(2) == "two");
  CHECK(source.line(3) == "three");
  CHECK(source.line(4) == "four");
  CHECK(source.line(0).empty());
  CHECK(source.line(5).empty());
}

TEST_CASE("columns count characters, not bytes") {
  const SourceText source("a.yaml", "häßlich: ja\n");
  CHECK(source.mark_at(0, 0).str() == "a.yaml:1:1");
  CHECK(source.mark_at(0, 11).str() == "a.yaml:1:10");
  CHECK(source.mark_at(7, 3).str() == "a.yaml:8:4");
}

TEST_CASE("columns are found anywhere in a long line") {
  std::string text = "x\n";
  for (int i = 0; i < 400; ++i) text += "aä€";  // 6 bytes, 3 characters
  const SourceText source("a.yaml", text + "\ny");
  for (int i = 0; i <= 400; ++i) CHECK(source.mark_at(1, 6 * i).column == 3 * i + 1);
  CHECK(source.mark_at(1, 2405).column == 1206);
  CHECK(source.mark_at(2, 1).column == 2);
}

TEST_CASE("what is no text is refused with its place") {
  CHECK_THROWS_WITH(SourceText("a", std::string("ok\nx\0y", 6)), "a:2:2: not a text file: it has a control character here");
  CHECK_THROWS_WITH(SourceText("a", "ok: \xff"), "a:1:5: not a text file: this is no UTF-8");
  CHECK_THROWS_AS(SourceText("a", "cut \xe2\x82"), levin::ConfigError);
  CHECK_THROWS_AS(SourceText("a", "\x04"), levin::ConfigError);
  CHECK(SourceText("a", "\xef\xbb\xbfkey: 1").text() == "key: 1");
}

TEST_CASE("a file that is missing, a folder, forbidden or huge is a clear error") {
  const levin::test::TemporaryFolder folder;
  CHECK_THROWS_WITH(SourceText::from_file(folder / "none.yaml"),
                    Catch::Contains("there is no file") && Catch::Contains("none.yaml"));
  CHECK_THROWS_WITH(SourceText::from_file(folder.path()), Catch::Contains("is a folder"));
  std::ofstream(folder / "huge.yaml") << std::string((16 << 20) + 1, ' ');
  CHECK_THROWS_WITH(SourceText::from_file(folder / "huge.yaml"), Catch::Contains("larger than 16 MiB"));
  if (::geteuid() != 0) {
    std::ofstream(folder / "secret.yaml") << "a: 1";
    fs::permissions(folder / "secret.yaml", fs::perms::none);
    CHECK_THROWS_WITH(SourceText::from_file(folder / "secret.yaml"), Catch::Contains("cannot read"));
  }
  std::ofstream(folder / "good.yaml") << "a: 1\n";
  CHECK(SourceText::from_file(folder / "good.yaml").text() == "a: 1\n");
  CHECK(SourceText::from_file("/dev/null").text().empty());
}
