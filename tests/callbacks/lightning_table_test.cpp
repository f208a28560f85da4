#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "levin/core/base/text.h"
#include "levin/core/config/registry.h"
#include "levin/core/config/value_json.h"
#include "levin/core/trainer_options.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

const std::string kSource = LEVIN_SOURCE_DIR;

/// What a section of docs/from-lightning.md answers, by Lightning's name: its rows, and the names after "The same:".
std::vector<std::pair<std::string, std::string>> lightning_rows(const std::string& section) {
  static const std::regex kRow(R"(\| `(\w+)` \| (.*) \|)");
  static const std::regex kName("`\\w+`");
  const std::string page = read_text(kSource + "/docs/from-lightning.md");
  const std::size_t begin = page.find("\n## " + section + "\n");
  REQUIRE(begin != std::string::npos);
  const std::string text = page.substr(begin, page.find("\n## ", begin + 1) - begin);
  std::vector<std::pair<std::string, std::string>> rows;
  for (const std::string& line : lines_of(text)) {
    if (std::smatch row; std::regex_match(line, row, kRow)) rows.emplace_back(row[1], row[2]);
  }
  const std::size_t same = text.find("\nThe same: ");
  REQUIRE(same != std::string::npos);
  const std::string names = text.substr(same, text.find("\n\n", same) - same);
  for (std::sregex_iterator match(names.begin(), names.end(), kName), end; match != end; ++match) {
    const std::string name = match->str();
    rows.emplace_back(name.substr(1, name.size() - 2), name);
  }
  return rows;
}

/// A class that YAML names, or that C++ alone may: a base class.
bool is_callback(const std::string& name) {
  if (Registry<Callback>::instance().find(name) != nullptr) return true;
  const std::regex declaration("class LEVIN_API " + name + "\\b");
  std::vector<std::string> headers = {"core/callback.h"};
  for (const std::string& header : lines_of(read_text(kSource + "/callbacks/public_headers.txt")))
    headers.push_back("callbacks/" + header);
  return std::ranges::any_of(headers, [&](const std::string& header) {
    return std::filesystem::is_regular_file(kSource + "/" + header) &&
           std::regex_search(read_text(kSource + "/" + header), declaration);
  });
}

bool is_flag(const std::string& name) { return write_options(TrainerOptions()).contains(name); }

/// Gives what is wrong, or nothing. An answer is the name of what levin has, and more words, or "no: " and the reason.
std::string flaw_of(const std::string& answer, bool (*exists)(const std::string&)) {
  std::smatch name;
  if (std::regex_search(answer, name, std::regex("^`(\\w+)`"))) return exists(name[1]) ? "" : "levin has no " + name[1].str();
  return answer.starts_with("no: ") && answer.size() > 20 ? "" : "neither what levin has, nor \"no: \" and why";
}

}  // namespace

TEST_CASE("the page for Lightning's users answers for each of its callbacks and flags, with what levin has") {
  const auto [section, list, exists] = GENERATE(table<std::string, std::string, bool (*)(const std::string&)>(
      {{"Every flag of the Trainer", "flags", is_flag}, {"Every callback", "callbacks", is_callback}}));
  std::vector<std::string> expected;
  const Value names = parse_json(read_text(kSource + "/tests/callbacks/lightning_names.json"));
  for (const Value& name : names.at(list).as_list()) expected.push_back(name.as_string());
  REQUIRE(expected.size() > 20);
  std::vector<std::string> answered, flaws;
  for (const auto& [name, answer] : lightning_rows(section)) {
    answered.push_back(name);
    if (const std::string flaw = flaw_of(answer, exists); !flaw.empty()) flaws.push_back(name + ": " + flaw);
  }
  std::ranges::sort(answered);
  std::ranges::sort(expected);
  CHECK(answered == expected);
  CHECK(flaws == std::vector<std::string>());
}

}  // namespace levin::test
