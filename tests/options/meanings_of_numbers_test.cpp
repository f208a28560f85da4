#include <torch/torch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "levin/core/base/format.h"
#include "levin/data/data_loader.h"
#include "levin/data/dataset.h"
#include "options/meanings_of_numbers.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

/// What a cell may say besides `refused`: see the table's first lines.
const std::set<std::string> kMeanings = {"off", "number", "all", "unset"};

/// As it would stand in the table, for those who have added an option.
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

/// The sources of all tests, and cases that are texts, in one text.
std::string all_tests() {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(LEVIN_SOURCE_DIR "/tests")) {
    if (entry.path().extension() == ".cpp" || entry.path().extension() == ".txt") text += read_text(entry.path());
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
    const auto has = [&](const char* begin, const char* end) {
      return tests.find(begin + row.shown_by + end) != std::string::npos;
    };
    CHECK((row.shown_by.empty() || has("TEST_CASE(\"", "\"") || has("\n== ", "\n")));
  }
}

TEST_CASE("without workers the thread that asks reads") {
  struct Reading final : Dataset {
    explicit Reading(std::set<std::thread::id>& threads) : threads_(threads) {}
    std::int64_t size() const override { return 4; }
    Batch get_batch(std::span<const std::int64_t> indices) const override {
      threads_.insert(std::this_thread::get_id());
      return Batch{{"x", torch::ones({std::ssize(indices)})}};
    }
    std::set<std::thread::id>& threads_;
  };
  for (const int workers : {0, 1}) {
    std::set<std::thread::id> threads;
    {
      DataLoader loader(std::make_shared<Reading>(threads), {.batch_size = 2, .num_workers = workers});
      loader.start_epoch(0);
      while (loader.next()) {
      }
    }
    CHECK(threads.size() == 1);
    CHECK(threads.contains(std::this_thread::get_id()) == (workers == 0));
  }
}

}  // namespace levin::test
