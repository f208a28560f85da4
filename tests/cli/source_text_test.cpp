#include "levin/cli/config/source_text.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "levin/cli/config/diagnostics.h"
#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using namespace levin;
using namespace levin::cli;
using namespace levin::test;

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

TEST_CASE("what is no text is refused with its line and column") {
  CHECK_THROWS_WITH(SourceText("a", std::string("ok\nx\0y", 6)), "a:2:2: not a text file: it has a control character here");
  CHECK_THROWS_WITH(SourceText("a", "ok: \xff"), "a:1:5: not a text file: this is not UTF-8");
  CHECK_THROWS_AS(SourceText("a", "cut \xe2\x82"), ConfigError);
  CHECK_THROWS_AS(SourceText("a", "\x04"), ConfigError);
  CHECK(SourceText("a", "\xef\xbb\xbfkey: 1").text() == "key: 1");
}

TEST_CASE("a file that is missing, a folder, forbidden or huge is a clear error") {
  const TemporaryFolder folder;
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

namespace {

std::string diagnostic(const ConfigError& error) {
  const std::vector<std::string> texts = diagnostics(error);
  REQUIRE(texts.size() == 1);
  return texts.front();
}

}  // namespace

TEST_CASE("the line of the file is shown with a caret under the offending text") {
  const TemporaryFolder folder;
  const std::string file = folder / "run.yaml";
  std::ofstream(file) << "a: 1\n\tä: bad\n" << std::string(500, 'x') << ": y\n";
  CHECK(diagnostic({Mark{file, 2, 5}, "is bad"}) == file + ":2:5: is bad\n  2 | \tä: bad\n    | \t   ^");
  CHECK_THAT(diagnostic({Mark{file, 9, 1}, "past the end"}), Catch::EndsWith("\n  9 | \n    | ^"));
  const std::string wide = diagnostic({Mark{file, 3, 503}, "far right"});
  CHECK(wide.size() < 500);
  CHECK_THAT(wide, Catch::Contains("x: y\n") && Catch::EndsWith("^"));
}

TEST_CASE("without a readable line the message stands alone") {
  CHECK(diagnostic(ConfigError("no place")) == "no place");
  CHECK(diagnostic({Mark{"command line: --x"}, "wrong"}) == "command line: --x: wrong");
  CHECK(diagnostic({Mark{"gone.yaml", 3, 1}, "wrong"}) == "gone.yaml:3:1: wrong");
}

TEST_CASE("several errors follow one another in the order of the file, up to a bearable number") {
  std::vector<ConfigError> errors = {{Mark{"b.yaml", 1, 1}, "fourth"},
                                     {Mark{"a.yaml", 10, 1}, "third"},
                                     {Mark{"a.yaml", 2, 7}, "second"},
                                     ConfigError("first")};
  CHECK(diagnostics(ConfigErrors(errors)) ==
        std::vector<std::string>{"first", "a.yaml:2:7: second", "a.yaml:10:1: third", "b.yaml:1:1: fourth"});
  errors.insert(errors.end(), 21, ConfigError("many"));
  const auto texts = diagnostics(ConfigErrors(errors));
  CHECK(texts.size() == 21);
  CHECK(texts.back() == "and 5 more errors");
}
