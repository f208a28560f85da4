// What the repository may be long: tests/house/budget.txt.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "house/house_rules.h"
#include "support/file_text.h"
#include "support/rooms.h"

namespace levin::test {
namespace {

using Sizes = std::map<std::string, std::ptrdiff_t>;

/// "NAME NUMBER" lines.
Sizes read_budget(const std::string& text) {
  Sizes budget;
  for (const std::string& line : lines_of(text)) {
    if (const auto words = words_in(line); !line.starts_with("#")) budget[words.at(0)] = std::stol(words.at(1));
  }
  return budget;
}

Sizes sizes_of(const std::vector<SourceFile>& files) {
  Sizes sizes;
  for (const SourceFile& file : files) {
    const std::string folder = file.name.substr(0, file.name.find('/'));
    const auto lines = std::count(file.content.begin(), file.content.end(), '\n');
    if (std::ranges::find(rooms(), folder) != rooms().end()) sizes["rooms"] += lines;
    if (folder == "tests") sizes["tests"] += lines;
    if (folder == "core") ++sizes["core_files"];
  }
  return sizes;
}

/// A line for each size that is above its budget.
std::vector<std::string> excesses(const Sizes& budget, const Sizes& sizes) {
  std::vector<std::string> found;
  for (const auto& [name, most] : budget) {
    const std::ptrdiff_t size = sizes.at(name);
    if (size > most)
      found.push_back(name + ": " + std::to_string(size) + ", " + std::to_string(size - most) + " more than budgeted");
  }
  return found;
}

TEST_CASE("rooms, tests and public headers stay within the budget") {
  const std::filesystem::path root = LEVIN_SOURCE_DIR;
  Sizes sizes = sizes_of(read_sources(root));
  for (const std::string& room : rooms()) {
    const std::string headers = read_text(root / room / "public_headers.txt");
    sizes["public_headers"] += std::count(headers.begin(), headers.end(), '\n');
  }
  const Sizes budget = read_budget(read_text(root / "tests/house/budget.txt"));
  CHECK(budget.size() == sizes.size());
  CHECK(excesses(budget, sizes) == std::vector<std::string>());
}

TEST_CASE("what is above a budget is told with how much") {
  const Sizes sizes =
      sizes_of({{"core/a.h", "1\n2\n"}, {"core/b.cpp", "1\n"}, {"cli/c.cpp", "1\n"}, {"tests/d.cpp", "1\n2\n"}});
  CHECK(sizes == Sizes{{"core_files", 2}, {"rooms", 4}, {"tests", 2}});
  CHECK(excesses(read_budget("# a comment\nrooms 3\ntests 2\ncore_files 2\n"), sizes) ==
        std::vector<std::string>{"rooms: 4, 1 more than budgeted"});
}

}  // namespace
}  // namespace levin::test
