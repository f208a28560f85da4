#include "levin/loggers/csv_text.h"

#include <rapidcheck.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>

#include "levin/core/base/error.h"
#include "loggers/csv_table.h"
#include "support/temporary_folder.h"

using levin::CsvReader;
using levin::test::TemporaryFolder;

namespace {

std::string cell(const std::string& text) {
  std::string line;
  levin::append_csv_text(line, text);
  return line;
}

std::string number(double value) {
  std::string line;
  levin::append_csv_number(line, value);
  return line;
}

std::vector<std::vector<std::string>> read(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file.csv", std::ios::binary) << text;
  CsvReader reader(folder / "file.csv");
  std::vector<std::vector<std::string>> records;
  for (std::vector<std::string> cells; reader.next(cells);) records.push_back(cells);
  return records;
}

using Records = std::vector<std::vector<std::string>>;

}  // namespace

TEST_CASE("cells are quoted only where RFC 4180 wants it") {
  CHECK(cell("val_loss") == "val_loss");
  CHECK(cell("a b") == "a b");
  CHECK(cell("a,b") == "\"a,b\"");
  CHECK(cell("say \"x\"") == "\"say \"\"x\"\"\"");
  CHECK(cell("a\nb") == "\"a\nb\"");
  CHECK(cell("a\rb") == "\"a\rb\"");
}

TEST_CASE("numbers are short and exact") {
  CHECK(number(0.1) == "0.1");
  CHECK(number(5.0) == "5.0");
  CHECK(number(-0.0) == "-0.0");
  CHECK(number(1e-5) == "1e-05");
  CHECK(number(1e300) == "1e+300");
  CHECK(number(std::nan("")) == "NaN");
  CHECK(number(-std::nan("")) == "NaN");
  CHECK(number(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(number(-std::numeric_limits<double>::infinity()) == "-inf");
  std::string line;
  levin::append_csv_number(line, std::numeric_limits<std::int64_t>::min());
  CHECK(line == "-9223372036854775808");
}

TEST_CASE("every double reads back to the same bits") {
  REQUIRE(rc::check([](std::uint64_t bits) {
    const double value = std::bit_cast<double>(bits);
    RC_PRE(!std::isnan(value));
    RC_ASSERT(std::bit_cast<std::uint64_t>(std::strtod(number(value).c_str(), nullptr)) == bits);
  }));
}

TEST_CASE("a reader knows every kind of line end and passes over empty lines") {
  const Records expected{{"a", "b"}, {"1", ""}, {"", "2"}};
  CHECK(read("a,b\n1,\n,2\n") == expected);
  CHECK(read("a,b\r\n1,\r\n,2\r\n") == expected);
  CHECK(read("a,b\r\r\r\r\n1,\n\n\n,2\n") == expected);
  CHECK(read("").empty());
  CHECK(read("\n\n").empty());
}

TEST_CASE("a reader drops a last record that has no end") {
  CHECK(read("a,b\n1,2\n3,0.1") == Records{{"a", "b"}, {"1", "2"}});
  CHECK(read("a,\"b\n1,2\n") == Records{});
}

TEST_CASE("a reader knows quotes") {
  CHECK(read("\"a,b\",\"\"\"\",\"x\"\"y\",\"\",\"\n\"\n") == Records{{"a,b", "\"", "x\"y", "", "\n"}});
}

TEST_CASE("what is written as cells is read back") {
  REQUIRE(rc::check([](const std::vector<std::vector<std::string>>& table) {
    std::string text;
    Records expected;
    for (const auto& record : table) {
      // A record of one empty cell is an empty line, which readers pass over.
      if (record.empty() || record == std::vector<std::string>{""}) continue;
      for (std::size_t index = 0; index < record.size(); ++index) text += (index > 0 ? "," : "") + cell(record[index]);
      text += "\n";
      expected.push_back(record);
    }
    RC_ASSERT(read(text) == expected);
  }));
}

TEST_CASE("a file that cannot be read is an error with its path") {
  CHECK_THROWS_AS(CsvReader("/no/such/file.csv"), levin::IoError);
  CHECK_THROWS_WITH(CsvReader("/no/such/file.csv"), "cannot read /no/such/file.csv: No such file or directory");
  std::vector<std::string> cells;
  CsvReader folder("/tmp");
  CHECK_THROWS_AS(folder.next(cells), levin::IoError);
}
