#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "levin/core/base/format.h"
#include "options/meanings_of_numbers.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

/// What a cell may say beside `refused`: see the table's first lines.
const std::set<std::string> kMeanings = {"off", "number", "all", "unset"};

/// As it would stand in the table, for who has added an option.
std::string suggested_row(const NumericOption& option) {
  std::string row = option.name;
  for (std::size_t column = 0; column < kProbed; ++column) {
    const bool is_null = kProbedNames[column] == std::string("null");
    const char* const cell = !option.objections[column].empty() ? "refused" : is_null ? "unset" : "number";
    row += format(" | {}", is_null && !option.may_be_null ? "-" : cell);
  }
  return row;
}

/// Without what stands behind a colon.
std::string word_of(const std::string& cell) { return cell.substr(0, cell.find(':')); }

std::string advice_of(const std::string& cell) {
  const std::size_t colon = cell.find(':');
  return colon == std::string::npos ? "" : cell.substr(colon + 2);
}

/// The sources of all tests, in one text.
std::string all_tests() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(LEVIN_SOURCE_DIR "/tests")) {
    if (entry.path().extension() == ".cpp") text += read_text(entry.path());
  }
  return text;
}

}  // namespace

TEST_CASE("every option that takes numbers has a row that says what 0, null and -1 do, and they are refused where it says so") {
  std::map<std::string, MeaningRow> rows;
  for (const MeaningRow& row : meaning_rows()) {
    INFO(row.name);
    CHECK(rows.emplace(row.name, row).second);
  }
  for (const NumericOption& option : numeric_options()) {
    const auto found = rows.find(option.name);
    if (found == rows.end()) {
      FAIL_CHECK("meanings_of_numbers.txt has no row of " + option.name + "; decide, and write: " + suggested_row(option));
      continue;
    }
    for (std::size_t column = 0; column < kProbed; ++column) {
      const std::string& cell = found->second.cells[column];
      const std::string& objection = option.objections[column];
      INFO(option.name << ": " << kProbedNames[column] << " is " << cell << "; the class says: '" << objection << "'");
      const bool is_null = kProbedNames[column] == std::string("null");
      CHECK((cell == "-") == (is_null && !option.may_be_null));
      if (cell == "-") continue;  // as everywhere: null is no number
      CHECK((word_of(cell) == "refused") == !objection.empty());
      CHECK((word_of(cell) == "refused" || kMeanings.contains(cell)));
      CHECK(objection.find(advice_of(cell)) != std::string::npos);
    }
    rows.erase(found);
  }
  for (const auto& [name, row] : rows) FAIL_CHECK("meanings_of_numbers.txt has a row of " + name + ", which is no option");
}

TEST_CASE("where the meaning is that something is off, a test shows it") {
  const std::string tests = all_tests();
  for (const MeaningRow& row : meaning_rows()) {
    INFO(row.name << " is shown by '" << row.shown_by << "'");
    CHECK((std::ranges::count(row.cells, std::string("off")) > 0) == !row.shown_by.empty());
    CHECK((row.shown_by.empty() || tests.find(format("TEST_CASE(\"{}\"", row.shown_by)) != std::string::npos));
  }
}

}  // namespace levin::test
