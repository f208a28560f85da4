#include "levin/data/data_files.h"

#include <rapidcheck.h>
#include <torch/torch.h>

#include <catch2/catch.hpp>
#include <limits>
#include <sstream>

#include "levin/core/base/error.h"

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using levin::CsvOptions;
using levin::CsvTable;

namespace {

CsvTable parse(std::string_view text, const CsvOptions& options = {}) { return levin::parse_csv(text, "table.csv", options); }
at::Tensor rows(const std::vector<double>& values, std::int64_t width) {
  return torch::tensor(values, torch::kDouble).view({-1, width});
}

}  // namespace

TEST_CASE("a table is read with and without names of columns") {
  const CsvTable named = parse("a, b ,\"c \"\"d\"\"\"\n1,2,3\n4,5e-1,-6\n");
  REQUIRE(named.columns == std::vector<std::string>{"a", "b", "c \"d\""});
  REQUIRE(named.values.equal(rows({1, 2, 3, 4, 0.5, -6}, 3)));
  const CsvTable plain = parse("1,2\n3,4");
  REQUIRE(plain.columns.empty());
  REQUIRE(plain.values.equal(rows({1, 2, 3, 4}, 2)));
  const CsvTable numbered = parse("0,1\n3,4\n", {.header = true});
  REQUIRE(numbered.columns == std::vector<std::string>{"0", "1"});
  REQUIRE(numbered.values.equal(rows({3, 4}, 2)));
}

TEST_CASE("quotes, CRLF, blanks, empty lines, signs and a byte order mark") {
  REQUIRE(parse("\xEF\xBB\xBF\"1\", +2\r\n\r\n  \n 3 ,\" 4 \"\r\n").values.equal(rows({1, 2, 3, 4}, 2)));
  REQUIRE(parse("1\t2\n", {.delimiter = '\t'}).values.equal(rows({1, 2}, 2)));
  REQUIRE(parse("1;2\n", {.delimiter = ';'}).values.equal(rows({1, 2}, 2)));
  REQUIRE(parse("inf,-inf,nan\n").values[0][2].isnan().item<bool>());
  REQUIRE(parse("").values.numel() == 0);
  REQUIRE(parse("a,b\n").values.sizes() == at::IntArrayRef{0, 2});
}

TEST_CASE("one column may hold texts, which come sorted, and rows know their lines") {
  const CsvTable last = parse("1,b\n\n2,\"a\"\"x\"\n3,b\n", {.class_column = "-1"});
  CHECK(last.columns.empty());
  CHECK(last.classes == std::vector<std::string>{"a\"x", "b"});
  CHECK(last.values.equal(rows({1, 1, 2, 0, 3, 1}, 2)));
  CHECK(std::vector{last.line_of(0), last.line_of(1), last.line_of(2)} == std::vector<std::int64_t>{1, 3, 4});
  const CsvTable named = parse("kind,x\nb,1\na,2\n", {.class_column = "kind"});
  CHECK(named.values.equal(rows({1, 1, 0, 2}, 2)));
  CHECK(named.line_of(0) == 2);
  const CsvTable numbers = parse("1,7\n2,3\n", {.class_column = "-1"});
  CHECK(numbers.classes.empty());
  CHECK(numbers.values.equal(rows({1, 7, 2, 3}, 2)));
  CHECK(parse("1,2\n", {.class_column = "kind"}).classes.empty());
  CHECK(CsvTable().line_of(0) == 0);
}

TEST_CASE("missing values are an error, or the number that stands for them") {
  REQUIRE_THROWS_WITH(parse("1,2\n3,\n"), StartsWith("table.csv:2:3: the value is missing"));
  REQUIRE(parse("1,2\n,NA\n?,4\n", {.missing = -1.0}).values.equal(rows({1, 2, -1, -1, -1, 4}, 2)));
}

TEST_CASE("a number too small for a float64 is 0, one too large an error") {
  REQUIRE(parse("1e-999,-1e-400\n").values.equal(rows({0, 0}, 2)));
  REQUIRE_THROWS_WITH(parse("1\n-1e999\n"), StartsWith("table.csv:2:1: '-1e999' is too large for a 64-bit float"));
}

TEST_CASE("lines are read across the pieces that a file comes in") {
  // Rows of 7 to 13 bytes: their ends lie anywhere in pieces of 64 KiB; one line is longer than several pieces.
  std::string text;
  std::vector<double> values;
  for (int row = 0; row < 50'000; ++row) {
    values.insert(values.end(), {row + 0.5, static_cast<double>(row % 7)});
    text += std::to_string(row) + ".5," + std::to_string(row % 7) + (row % 3 == 0 ? "\r\n" : "\n");
  }
  text += "1," + std::string(300'000, ' ') + "2";
  values.insert(values.end(), {1, 2});
  REQUIRE(parse(text).values.equal(rows(values, 2)));
  REQUIRE_THROWS_WITH(parse(text + "\n1,x"), StartsWith("table.csv:50002:3: 'x'"));
}

TEST_CASE("an error says file, line and column, and shows the text") {
  REQUIRE_THROWS_AS(parse("1,2\n3,x4\n"), levin::IoError);
  REQUIRE_THROWS_WITH(parse("1,2\n3, x4\n"), StartsWith("table.csv:2:4: 'x4' is not a number"));
  REQUIRE_THROWS_WITH(parse("1,2\n3\n"), StartsWith("table.csv:2:1: this line has 1 fields, the lines before it have 2"));
  REQUIRE_THROWS_WITH(parse("1,2\n3,4,5\n"), StartsWith("table.csv:2:5: this line has 3 fields"));
  REQUIRE_THROWS_WITH(parse("1,\"2\n3,4\n"), StartsWith("table.csv:1:3: the quote that opens here is not closed"));
  REQUIRE_THROWS_WITH(parse("\"1\"2\n"), StartsWith("table.csv:1:4: text after a closing quote: '2'"));
  REQUIRE_THROWS_WITH(parse("1.0,2.O\n3,4\n"), StartsWith("table.csv:1:5: '2.O' is not a number") && Contains("set `header`"));
  REQUIRE_THROWS_WITH(parse("a;b\n1;2\n"),
                      StartsWith("table.csv:2:1: '1;2' is not a number") && Contains("set `delimiter`") && Contains("';'"));
  REQUIRE_THROWS_WITH(parse("1,5\t2\n"), Contains("is not a number") && Contains("a tab"));
  REQUIRE_THROWS_WITH(parse("1\n" + std::string(100, 'y') + "\n"), Contains("'" + std::string(40, 'y') + "…'"));
  REQUIRE_THROWS_WITH(levin::read_csv("no/such/file.csv"), Contains("no/such/file.csv") && Contains("No such file"));
}

TEST_CASE("what is written is read back exactly") {
  REQUIRE(rc::check([](const std::vector<std::pair<double, double>>& table) {
    std::ostringstream text;
    text.precision(std::numeric_limits<double>::max_digits10);
    std::vector<double> values;
    for (const auto& [left, right] : table) {
      text << left << ",\"" << right << "\"\r\n";
      values.insert(values.end(), {left, right});
    }
    const at::Tensor read = parse(text.str()).values;
    RC_ASSERT(read.numel() == static_cast<std::int64_t>(values.size()));
    if (!values.empty()) RC_ASSERT(read.equal(rows(values, 2)));
  }));
}

TEST_CASE("no text crashes the parser") {
  REQUIRE(rc::check([] {
    const auto letters = rc::gen::elementOf(std::string("01.e-+,,,\"\"\n\n\r \tNAx?\xEF") + '\0');
    const std::string text = *rc::gen::container<std::string>(letters);
    const CsvOptions options{.missing = *rc::gen::element(std::optional<double>(), std::optional<double>(0.0))};
    try {
      parse(text, options);
    } catch (const levin::IoError&) {
    }
  }));
}
