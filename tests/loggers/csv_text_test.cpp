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

TEST_CASE("cells are quoted only where RFC 4180 wants it, and numbers are short and exact") {
  for (const auto& [text, written] :
       std::initializer_list<std::pair<const char*, const char*>>{{"val_loss", "val_loss"},
                                                                  {"a b", "a b"},
                                                                  {"a,b", "\"a,b\""},
                                                                  {"say \"x\"", "\"say \"\"x\"\"\""},
                                                                  {"a\nb", "\"a\nb\""},
                                                                  {"a\rb", "\"a\rb\""}}) {
    CHECK(cell(text) == written);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [value, written] : std::initializer_list<std::pair<double, const char*>>{{0.1, "0.1"},
                                                                                            {5.0, "5.0"},
                                                                                            {-0.0, "-0.0"},
                                                                                            {1e-5, "1e-05"},
                                                                                            {1e300, "1e+300"},
                                                                                            {std::nan(""), "NaN"},
                                                                                            {-std::nan(""), "NaN"},
                                                                                            {kInfinity, "inf"},
                                                                                            {-kInfinity, "-inf"}}) {
    CHECK(number(value) == written);
  }
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

TEST_CASE("a reader knows quotes and every kind of line end, and drops empty lines and a last record that has no end") {
  const Records expected{{"a", "b"}, {"1", ""}, {"", "2"}};
  for (const auto& [text, records] : std::initializer_list<std::pair<const char*, Records>>{
           {"a,b\n1,\n,2\n", expected},
           {"a,b\r\n1,\r\n,2\r\n", expected},
           {"a,b\r\r\r\r\n1,\n\n\n,2\n", expected},
           {"", {}},
           {"\n\n", {}},
           {"a,b\n1,2\n3,0.1", {{"a", "b"}, {"1", "2"}}},
           {"a,\"b\n1,2\n", {}},
           {"\"a,b\",\"\"\"\",\"x\"\"y\",\"\",\"\n\"\n", {{"a,b", "\"", "x\"y", "", "\n"}}}}) {
    CHECK(read(text) == records);
  }
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
