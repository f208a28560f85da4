#include "levin/data/csv_file.h"

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
  REQUIRE(parse("1,2\n,NA\n?,4\n", {.missing = -1.0}).values.equal(rows({1, 2, -1, -1, -1, 4}, 2)));
  REQUIRE(parse("1e-999,-1e-400\n").values.equal(rows({0, 0}, 2)));  // too small for a float64
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

TEST_CASE("a first column without a name is an index, which is left out with a note") {
  const CsvTable table = parse(",a,b\n0,5,6\n1,7,8\n");
  CHECK(table.columns == std::vector<std::string>{"a", "b"});
  CHECK(table.values.equal(rows({5, 6, 7, 8}, 2)));
  CHECK(table.places == std::vector<std::int64_t>{1, 2});
  CHECK(table.columns_of_file == std::vector<std::string>{"", "a", "b"});
  REQUIRE(table.notes.size() == 1);
  CHECK_THAT(table.notes[0], Contains("table.csv: its first column has no name"));
  // Of rows in another order, of texts, and as a second to_csv() writes it.
  CHECK(parse(",a\n17,5\n3,7\n").values.equal(rows({5, 7}, 1)));
  CHECK(parse("\"\",a\nMazda RX4,5\nDatsun 710,7\n").values.equal(rows({5, 7}, 1)));
  CHECK(parse("Unnamed: 0,a\n0,5\n1,7\n").values.equal(rows({5, 7}, 1)));
  // An option may name it.
  CHECK(parse(",a\nx,5\ny,7\n", {.text_columns = {"0"}}).values.equal(rows({0, 5, 1, 7}, 2)));
  CHECK(parse(",a\n0.5,5\n1,7\n", {.ignore_columns = {"0"}}).values.equal(rows({5, 7}, 1)));
  // A label file of one column, which has a name or not, is no index.
  CHECK(parse("\n0\n1\n", {.header = false}).values.equal(rows({0, 1}, 1)));
  const std::string cure = "ignore_columns: [0]";
  CHECK_THROWS_WITH(parse(",a\n0.5,5\n1,7\n"), Contains("table.csv:1:1") && Contains("not whole numbers") && Contains(cure));
  CHECK_THROWS_WITH(parse(",a\n1,5\n1,7\n"), Contains("table.csv:1:1") && Contains("repeat") && Contains(cure));
  CHECK_THROWS_WITH(parse(",,a\n0,0,5\n0,1,7\n"), Contains("ignore_columns: [0, 1]"));
}

TEST_CASE("a first line that numbers the columns names them") {
  const CsvTable table = parse("0,1,2\n5,6,7\n");
  CHECK(table.columns == std::vector<std::string>{"0", "1", "2"});
  CHECK(table.values.equal(rows({5, 6, 7}, 3)));
  REQUIRE(table.notes.size() == 1);
  CHECK_THAT(table.notes[0], Contains("table.csv:1: the line numbers the columns") && Contains("set `header` to false"));
  CHECK(parse("0,1,2\n5,6,7\n", {.header = false}).values.equal(rows({0, 1, 2, 5, 6, 7}, 3)));
  CHECK(parse(",0,1\n0,5,6\n1,7,8\n").values.equal(rows({5, 6, 7, 8}, 2)));
  CHECK(parse("0,1,2,kind\n5,6,7,a\n", {.class_column = "-1"}).classes == std::vector<std::string>{"a"});
  CHECK_THROWS_WITH(parse("0,1\n5,6\n"), Contains("table.csv:1:1") && Contains("set `header` to true or false"));
  for (const char* sample : {"0\n5\n", "1,2,3\n5,6,7\n", "0,1,1\n5,6,7\n", "0.0,1.0,2.0\n5,6,7\n"})
    CHECK(parse(sample).columns.empty());
}

TEST_CASE("columns may be left out whatever they hold, and columns of texts come as indices of these") {
  const CsvTable table = parse("name,size,color,when\nAnn,1,red,2024-01-31\n\"Bob, jr.\",2,blue,?\n\"C \"\"x\"\"\",3,red,\n",
                               {.text_columns = {"color"}, .ignore_columns = {"name", "3", "none of them"}});
  CHECK(table.columns == std::vector<std::string>{"size", "color"});
  CHECK(table.places == std::vector<std::int64_t>{1, 2});
  CHECK(table.width_of_file == 4);
  CHECK(table.values.equal(rows({1, 1, 2, 0, 3, 1}, 2)));
  CHECK(table.texts.at(1) == std::vector<std::string>{"blue", "red"});
  // Numbers as numbers, what is missing as one more text.
  const CsvTable numbers = parse("a\n10\n9\n1.5\n10\n", {.header = true, .text_columns = {"a"}});
  CHECK(numbers.texts.at(0) == std::vector<std::string>{"1.5", "9", "10"});
  CHECK(parse("a,b\nNaN,1\nx,2\n", {.missing = 0.0, .text_columns = {"a"}}).texts.at(0) == std::vector<std::string>{"", "x"});
  CHECK_THROWS_WITH(parse("a,b\n,1\nx,2\n", {.text_columns = {"a"}}),
                    Contains("table.csv:2:1: the value is missing ('', column 'a')"));
  CHECK(parse("None,1\n", {.text_columns = {"0"}}).texts.at(0) == std::vector<std::string>{"None"});
  // The names in the options tell a header from a row of texts.
  CHECK(parse("color,kind\nred,a\n", {.class_column = "kind", .text_columns = {"color"}}).values.size(0) == 1);
  CHECK_THROWS_WITH(parse("red,a\nblue,b\n", {.class_column = "-1", .text_columns = {"0"}}),
                    Contains("set `header` to true or false"));
  CHECK(parse("a,b\n1,2\n3,4\n", {.most_rows = 1}).values.equal(rows({1, 2}, 2)));
  CHECK(parse("1,2\n3,x\n", {.most_rows = 0}).width_of_file == 2);
}

TEST_CASE("true and false are numbers, and what is missing has many names") {
  CHECK(parse("a,b\nTrue,false\nFALSE,true\n").values.equal(rows({1, 0, 0, 1}, 2)));
  CHECK(parse("True,1\nFalse,2\n", {.class_column = "0"}).classes == std::vector<std::string>{"False", "True"});
  for (const char* missing : {"", "NA", "N/A", "n/a", "#N/A", "null", "NULL", "None", "<NA>", "NaT", "?", "nan", "NaN", "#NA",
                              "\\N", ".", "-1.#IND", "1.#QNAN"}) {
    CAPTURE(missing);
    CHECK(parse(std::string("a,b\n1,") + missing + "\n", {.missing = 7.0}).values.equal(rows({1, 7}, 2)));
  }
  CHECK(parse("a,b\n1,nan\n").values.isnan().sum().item<std::int64_t>() == 1);
}

TEST_CASE("a quoted field may have line breaks") {
  const CsvTable table = parse("a,b,c\r\n1,\"two\r\nlines, \"\"quoted\"\"\",3\r\n\r\n4,x,6\r\n", {.text_columns = {"b"}});
  CHECK(table.values.equal(rows({1, 0, 3, 4, 1, 6}, 3)));
  CHECK(table.texts.at(1) == std::vector<std::string>{"two\nlines, \"quoted\"", "x"});
  CHECK(std::vector{table.line_of(0), table.line_of(1)} == std::vector<std::int64_t>{2, 5});
  CHECK_THROWS_WITH(parse("a,b\n\"1\n2\",3\n4,x\n", {.ignore_columns = {"a"}}),
                    StartsWith("table.csv:4:3: 'x' is not a number"));
  // An open quote does not take the whole file into memory.
  CHECK_THROWS_WITH(parse("1,\"2\n" + std::string(3 << 20, '\n')),
                    Contains("table.csv:1:3: the quote that opens here is not closed"));
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
  const std::string long_text(100, 'y');
  const std::vector<std::vector<std::string>> rows{
      {"1,2\n3,x4\n", "table.csv:2:3: 'x4' is not a number"},
      {"1,2\n3, x4\n", "table.csv:2:4: 'x4' is not a number"},
      {"1,2\n3\n", "table.csv:2:1: this line has 1 fields, the lines before it have 2"},
      {"1,2\n3,4,5\n", "table.csv:2:5: this line has 3 fields"},
      {"1,\"2\n3,4\n", "table.csv:1:3: the quote that opens here is not closed"},
      {"\"1\"2\n", "table.csv:1:4: text after a closing quote: '2'"},
      {"1.0,2.O\n3,4\n", "table.csv:1:5: '2.O' is not a number", "set `header`"},
      {"a;b\n1;2\n", "table.csv:2:1: '1;2' is not a number", "set `delimiter`", "';'"},
      {"1,5\t2\n", "is not a number", "a tab"},
      {"1\n" + long_text + "\n", "'" + std::string(40, 'y') + "…'"},
      {"1,2\n3,\n", "table.csv:2:3: the value is missing ('', column 1)", "`missing`"},
      {"a,b,c\n1,x,y\n", "table.csv:2:3: 'x' is not a number", "texts in this line: 'b', 'c'.", "one_hot_columns",
       "ignore_columns"},
      {"a,b\n1,2024-01-31\n", "'2024-01-31' is not a number but a date or a time", "leave column 'b' out with ignore_columns"},
      {"a,b\n1,31/1/2024 10:00\n", "but a date or a time"},
      {"a,b\n1,10:30\n", "but a date or a time"},
      {"a;b\n1;2,5\n", "set `delimiter`"},
      {"a;b,c;d\n1,5;2;3\n4,5;6;7\n", "table.csv:1:1: the line has more of ';' than of the delimiter ','",
       "set `delimiter` to it"},
      {std::string("\xFF\xFE"
                   "a\0,\0b\0\n\0",
                   10),
       "UTF-16", "UTF-8"},
      {"a,b\n1,\"1,234.5\"\n", "decimal point"},
      {"1\n-1e999\n", "table.csv:2:1: '-1e999' is too large for a 64-bit float"},
      {"A title\na,b\n1,2\n", "table.csv:2:3: this line has 2 fields", "delete what stands before it"},
      {"sep=;\na;b\n1;2\n", "table.csv:1:1", "delete it, and set `delimiter`"},
      {"a,b\n1,2,3\n4,5,6\n", "table.csv:2:5", "write.table()", "separator too many"},
      {"a,b\n1,2\na,b\n", "table.csv:3:1: 'a' is not a number: the line names the columns again"},
      {"a,b\ncm,kg\n1,2\n", "table.csv:2:1: 'cm' is not a number", "if the line has units"},
      {"a,b\n,1\n2,3\nlow,4\n", "table.csv:2:1: the value is missing"},
      {"a,b\n2,3\nlow,4\n", "table.csv:3:1: 'low' is not a number, and column 'a' has numbers in the lines before"},
      {"a,b\n1949-01,2\n", "but a date or a time"},
      {"a|b,c|d\n1|2|3\n", "has more of '|' than of the delimiter"},
      {"1.5 2\n3 4\n", "table.csv:2:1: '3 4' is not a number", "blanks"},
      {"1,2\n3 4,5\n", "'3 4' is not a number, and column 0"},
      {"\"a\";\"b\"\n1;2\n", "text after a closing quote", "set `delimiter`", "';'"},
      {"\"a\" \"b\"\n1 2\n", "text after a closing quote", "blanks"}};
  for (const auto& row : rows) {
    for (std::size_t part = 1; part < row.size(); ++part) CHECK_THROWS_WITH(parse(row[0]), Contains(row[part]));
    CHECK_THROWS_AS(parse(row[0]), levin::IoError);
  }
  CHECK_THROWS_WITH(parse("# by me\n# in m\na,b\n1,2\n", {.class_column = "-1"}),
                    Contains("table.csv:3:3: this line has 2 fields") && Contains("delete what stands before it"));
  REQUIRE_THROWS_WITH(levin::read_csv("no/such/file.csv"), Contains("no/such/file.csv") && Contains("No such file"));
}

TEST_CASE("a file of another format is recognized by its first bytes, whatever its name") {
  using namespace std::string_literals;
  for (const auto& [begin, kind] : std::initializer_list<std::pair<std::string, const char*>>{
           {"PAR1\x15\x04", "a Parquet file"},
           {"PK\x03\x04\x14\0\x06"s, "an Excel workbook"},
           {"SQLite format 3\0\x10"s, "an SQLite database"},
           {"\x93NUMPY\x01\0"s, "a NumPy file"},
           {"BZh91AY&SY\x01", "bzip2"},
           {"{\"age\":{\"0\":70}}", "a JSON file"},
           {"[{\"age\":70},{\"age\":57}]", "a JSON file"},
           {"<!DOCTYPE html>\n<a,b>", "an HTML file"},
           {"<table border=\"1\" class=\"x\">\n", "an HTML file"},
           {"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"}}) {
    CAPTURE(kind);
    CHECK_THROWS_WITH(parse(begin), StartsWith("table.csv:1:1: the file is ") && Contains(kind) &&
                                        (Contains("df.to_csv") || Contains("give it a name that ends in ")));
  }
  CHECK(parse("P,PK\n1,2\n").values.equal(rows({1, 2}, 2)));
}

TEST_CASE("lines may end in CR alone, and rows without any value are passed over with a note") {
  const CsvTable old = parse("a,\"b\rc\"\r1,2\r\r3,4\r");
  CHECK(old.columns == std::vector<std::string>{"a", "b\rc"});
  CHECK(old.values.equal(rows({1, 2, 3, 4}, 2)));
  CHECK(old.line_of(1) == 4);
  CHECK(parse("1,2\r").values.equal(rows({1, 2}, 2)));
  CHECK(parse("a,b\r\r\n1,2\r\r\n").values.equal(rows({1, 2}, 2)));
  CHECK_THROWS_WITH(parse("a,b\r1,2\r3,x\r"), StartsWith("table.csv:3:3: 'x' is not a number"));

  const CsvTable spread = parse(",,\na,b,c\n1,2,3\n , ,\n4,5,6\n\"\",,\n", {.missing = 0.0});
  CHECK(spread.values.equal(rows({1, 2, 3, 4, 5, 6}, 3)));
  CHECK(spread.line_of(1) == 5);
  REQUIRE(spread.notes.size() == 1);
  CHECK(spread.notes[0] == "table.csv: 3 rows without any value passed over, the first in line 1");
}

TEST_CASE("a blank as the delimiter stands for several, and for tabs") {
  const CsvOptions blanks{.delimiter = ' '};
  CHECK(parse("  a   \"b c\"\t d\n 1  2\t3  \n4 5 6\n", blanks).columns == std::vector<std::string>{"a", "b c", "d"});
  CHECK(parse("  a   \"b c\"\t d\n 1  2\t3  \n4 5 6\n", blanks).values.equal(rows({1, 2, 3, 4, 5, 6}, 3)));
  CHECK(parse("\"a\"\t\"b\"\n\"1\" \"2\"\n", blanks).values.equal(rows({1, 2}, 2)));
  CHECK_THROWS_WITH(parse("1 2\n3\n", blanks), Contains("table.csv:2:1: this line has 1 fields"));
}

TEST_CASE("a comma may be the decimal mark") {
  const CsvOptions options{.delimiter = ';', .decimal = ','};
  CHECK(parse("a;b\n1,5;-2\n+3,25e2;,5\n", options).values.equal(rows({1.5, -2, 325, 0.5}, 2)));
  CHECK(parse("1,5;a\n2,5;b\n", {.delimiter = ';', .decimal = ',', .class_column = "-1"}).classes.size() == 2);
  CHECK_THROWS_WITH(parse("a;b\n1,5;2.5\n", options),
                    Contains("table.csv:2:5: '2.5' is not a number") && Contains("has a point"));
  CHECK_THROWS_WITH(parse("a;b\n1.234,5;2\n", options), Contains("'1.234,5' is not a number") && Contains("thousands"));
  CHECK_THROWS_WITH(parse("a;b\n1,5;2\n", {.delimiter = ';'}), Contains("set `decimal` to ','"));
}

TEST_CASE("nothing stands for a label that is missing") {
  const CsvOptions numbers{.missing = 0.0, .complete_columns = {"y"}};
  CHECK(parse("x,y\n,1\n", numbers).values.equal(rows({0, 1}, 2)));
  CHECK_THROWS_WITH(parse("x,y\n1,1\n1,\n", numbers), Contains("table.csv:3:3: the label is missing ('', column 'y')"));
  CHECK_THROWS_WITH(parse("x,y\n1,nan\n", numbers), Contains("the label is missing ('nan', column 'y')"));
  CHECK_THROWS_WITH(parse("x,y\n1,red\n", numbers), Contains("labels of task: regression are numbers"));
  for (const char* text : {"x,y\n1,red\n2,NA\n", "x,y\n1,NaN\n2,red\n", "x,y\n1,0\n2,?\n"})
    CHECK_THROWS_WITH(parse(text, {.missing = 0.0, .class_column = "y"}), Contains("the label is missing"));
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
