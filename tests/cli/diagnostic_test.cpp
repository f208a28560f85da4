#include "levin/cli/source_text.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "levin/core/base/error.h"
#include "support/temporary_folder.h"

using levin::ConfigError;
using levin::Mark;

namespace {

std::string diagnostic(const ConfigError& error) {
  const std::vector<std::string> texts = levin::cli::diagnostics(error);
  REQUIRE(texts.size() == 1);
  return texts.front();
}

}  // namespace

TEST_CASE("the line of the file is shown with a caret under the offending text") {
  const levin::test::TemporaryFolder folder;
  const std::string file = folder / "run.yaml";
  std::ofstream(file) << "a: 1\n\tä: bad\n" << std::string(500, 'x') << ": y\n";
  CHECK(diagnostic({Mark{file, 2, 5}, "is bad"}) == file + ":2:5: is bad\n  2 | \tä: bad\n    | \t   ^");
  CHECK_THAT(diagnostic({Mark{file, 9, 1}, "past the end"}), Catch::EndsWith("\n  9 | \n    | ^"));
  const std::string wide = diagnostic({Mark{file, 3, 503}, "far right"});
  CHECK(wide.size() < 500);
  CHECK_THAT(wide, Catch::Contains("x: y\n") && Catch::EndsWith("^"));
}

TEST_CASE("without a readable place the message stands alone") {
  CHECK(diagnostic(ConfigError("no place")) == "no place");
  CHECK(diagnostic({Mark{"command line: --x"}, "wrong"}) == "command line: --x: wrong");
  CHECK(diagnostic({Mark{"gone.yaml", 3, 1}, "wrong"}) == "gone.yaml:3:1: wrong");
}

TEST_CASE("several errors follow one another in the order of the file, up to a bearable number") {
  std::vector<ConfigError> errors = {{Mark{"b.yaml", 1, 1}, "fourth"},
                                     {Mark{"a.yaml", 10, 1}, "third"},
                                     {Mark{"a.yaml", 2, 7}, "second"},
                                     ConfigError("first")};
  CHECK(levin::cli::diagnostics(levin::ConfigErrors(errors)) ==
        std::vector<std::string>{"first", "a.yaml:2:7: second", "a.yaml:10:1: third", "b.yaml:1:1: fourth"});
  errors.insert(errors.end(), 21, ConfigError("many"));
  const auto texts = levin::cli::diagnostics(levin::ConfigErrors(errors));
  CHECK(texts.size() == 21);
  CHECK(texts.back() == "and 5 more errors");
}
