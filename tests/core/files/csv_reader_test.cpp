#include "levin/core/files/csv_reader.h"

#include <rapidcheck.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/error.h"
#include "levin/core/files/atomic_file.h"
#include "levin/core/files/csv_text.h"
#include "support/temporary_folder.h"

using levin::CsvReader;
using levin::write_file;
using levin::test::TemporaryFolder;
namespace fs = std::filesystem;

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

/// What a number is read as, with how many characters of it.
std::pair<double, long> read_number(const std::string& text) {
  double number = -1;
  const char* const end = levin::parse_number(text.data(), text.data() + text.size(), number);
  return {number, end == nullptr ? -1 : end - text.data()};
}

}  // namespace

TEST_CASE("cells are quoted only where RFC 4180 wants it, and numbers are short and exact") {
  using Text = std::pair<const char*, const char*>;
  using Number = std::pair<double, const char*>;
  for (const auto& [text, written] :
       {Text{"val_loss", "val_loss"}, Text{"a b", "a b"}, Text{"a,b", R"("a,b")"}, Text{R"(say "x")", R"("say ""x""")"},
        Text{"a\nb", "\"a\nb\""}, Text{"a\rb", "\"a\rb\""}}) {
    CHECK(cell(text) == written);
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const auto& [value, written] :
       {Number{0.1, "0.1"}, Number{5.0, "5.0"}, Number{-0.0, "-0.0"}, Number{1e-5, "1e-05"}, Number{1e300, "1e+300"},
        Number{std::nan(""), "NaN"}, Number{-std::nan(""), "NaN"}, Number{kInfinity, "inf"}, Number{-kInfinity, "-inf"}}) {
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
           {"a,b\r1,\r\r,2\r", expected},
           {"a,\"b\"\r\n1,\"\"\r\n,\"2\"\r\n", expected},
           {"", {}},
           {"\n\n", {}},
           {"a,b\n1,2\n3,0.1", {{"a", "b"}, {"1", "2"}}},
           {"a,\"b\n1,2\n", {}},
           {"\"a\r\n\r\n\",b\r\n", {{"a\r\n\r\n", "b"}}},
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
  CHECK_THROWS_WITH(CsvReader("/no/such/file.csv"), "cannot read /no/such/file.csv: No such file or directory");
  CHECK_THROWS_WITH(CsvReader("/tmp"), "cannot read /tmp: Is a directory");
  const TemporaryFolder folder;
  std::ofstream(folder / "file.csv") << "a\n";
  fs::create_symlink("file.csv", folder / "link.csv");
  CHECK_NOTHROW(CsvReader(folder / "link.csv"));
  CHECK_THROWS_AS(CsvReader(folder / "link.csv", levin::Links::kRefused), levin::IoError);
}

TEST_CASE("lines longer than a buffer are read") {
  const TemporaryFolder folder;
  const std::string longer(3 << 20, '7');
  write_file(folder / "long.csv", "a\n" + longer + "\nb\n" + longer);
  CsvReader lines(folder / "long.csv");
  CHECK(lines.next_line() == "a");
  CHECK((lines.next_line() == longer));
  CHECK(lines.next_line() == "b");
  CHECK_FALSE(lines.next_line().has_value());
}

TEST_CASE("numbers are read as far as they go") {
  CHECK(read_number("0.25") == std::pair(0.25, 4L));
  CHECK(read_number("-17,3") == std::pair(-17.0, 3L));
  CHECK(read_number("1e-05") == std::pair(1e-05, 5L));
  CHECK(read_number("12345678901234567890123") == std::pair(12345678901234567890123.0, 23L));
  CHECK(read_number("0.00000000000000000000000125") == std::pair(1.25e-24, 28L));
  CHECK(std::isinf(read_number("-inf").first));
  CHECK(std::isnan(read_number("NaN").first));
  for (const char* wrong : {"", "-", ".", "x", "1x", "1.2.3", "1 ", "+1", "0x10"}) {
    INFO(wrong);
    CHECK(read_number(wrong).second == -1);
  }
  CHECK(read_number("2.201509475708008").first == Approx(2.201509475708008).epsilon(1e-14));
}
