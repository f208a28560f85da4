#include "levin/loggers/paged_text.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <vector>

using levin::PagedText;

namespace {

std::string stretched(std::string text, std::size_t from, std::size_t bytes) {
  CHECK(levin::stretch_csv(text, from, bytes));
  return text;
}

std::string shrunk(std::string cell) {
  levin::shrink_csv_number(cell);
  return cell;
}

std::string of_length(std::size_t bytes, const std::string& number) {
  return number + std::string(bytes - number.size() - 1, ',') + "\n";
}

}  // namespace

TEST_CASE("rows become longer by zeros at the end of decimal fractions") {
  CHECK(stretched("0,1,0.5\n", 0, 3) == "0,1,0.5000\n");
  CHECK(stretched("0,1,0.5,-1.25e-07,\n", 0, 5) == "0,1,0.5000,-1.2500e-07,\n");
  CHECK(stretched("0.5,\n0.5,NaN\n", 5, 1) == "0.5,\n0.50,NaN\n");
  std::string text = "0,1,NaN,inf,1e-05,1.x,v1.5,.,\n";
  CHECK_FALSE(levin::stretch_csv(text, 0, 1));
  text = "0,\"a,0.5,b\"\n";
  CHECK_FALSE(levin::stretch_csv(text, 0, 1));
  CHECK(text == "0,\"a,0.5,b\"\n");
}

TEST_CASE("numbers become as short as they were") {
  CHECK(shrunk("0.5000") == "0.5");
  CHECK(shrunk("1.000") == "1.0");
  CHECK(shrunk("-1.2500e-07") == "-1.25e-07");
  CHECK(shrunk("100") == "100");
  CHECK(shrunk("1.5") == "1.5");
  CHECK(shrunk("version 1.50") == "version 1.50");
  CHECK(shrunk("") == "");
}

TEST_CASE("a row that would lie across two pages comes after rows that end with the page") {
  PagedText text(4096 - 100);
  REQUIRE(text.add(of_length(40, "0.5")));
  REQUIRE(text.add(of_length(40, "NaN")));
  REQUIRE(text.add(of_length(40, "1.5")));
  CHECK(text.text() == of_length(60, "0.5" + std::string(20, '0')) + of_length(40, "NaN") + of_length(40, "1.5"));
}

TEST_CASE("what has no room in the page, and nothing before it to stretch, is refused") {
  PagedText full(4096 - 10);
  CHECK_FALSE(full.add(of_length(11, "1.5")));
  PagedText fits(4096 - 10);
  CHECK(fits.add(of_length(10, "1.5")));
  CHECK(fits.add(of_length(4096, "1.5")));
  PagedText wide(0);
  CHECK_FALSE(wide.add(of_length(4097, "1.5")));
}

TEST_CASE("a text ends so that the next row fits") {
  PagedText text(4096 - 100);
  REQUIRE(text.add(of_length(40, "1.5")));
  text.finish(60);
  CHECK(text.text().size() == 40);
  text.finish(61);
  CHECK(text.text() == of_length(100, "1.5" + std::string(60, '0')));
  text.finish(4096);
  CHECK(text.text().size() == 100);
}

TEST_CASE("every page ends with a row, whatever the rows are") {
  REQUIRE(rc::check([](const std::vector<std::uint16_t>& lengths, std::uint16_t start) {
    PagedText text(start);
    for (const std::uint16_t length : lengths) {
      if (!text.add(of_length(6 + length % 300, "0.25"))) {
        // Only the first row can be refused: nothing before it is there to be stretched.
        RC_ASSERT(text.text().empty());
        return;
      }
      text.finish(306);
    }
    for (std::size_t page = 4096; page <= start + text.text().size(); page += 4096) {
      if (page > start) RC_ASSERT(text.text()[page - start - 1] == '\n');
    }
  }));
}
