#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/hook.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = LEVIN_SOURCE_DIR;

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) found.push_back((*match)[1]);
  return found;
}

std::vector<fs::path> documents() {
  std::vector<fs::path> found;
  for (const char* folder : {"", "docs", "examples", "benchmarks", "tests"}) {
    for (auto entry = fs::recursive_directory_iterator(kRoot / folder); entry != fs::recursive_directory_iterator(); ++entry) {
      if (*folder == '\0' && entry->is_directory()) entry.disable_recursion_pending();
      if (entry->path().extension() == ".md") found.push_back(entry->path());
    }
  }
  return found;
}

TEST_CASE("links in the documentation lead to files") {
  static const std::regex kLink(R"(\]\(([^)#: ]+)(?:#[^)]*)?\))");
  std::vector<std::string> broken;
  REQUIRE(documents().size() > 5);
  for (const fs::path& document : documents()) {
    for (const std::string& link : matches(read_text(document), kLink)) {
      if (!fs::exists(document.parent_path() / link)) broken.push_back(document.filename().string() + " -> " + link);
    }
  }
  CHECK(broken == std::vector<std::string>());
}

/// Every page, as the index lists them.
std::vector<std::string> listed_pages() {
  return matches(read_text(kRoot / "docs/index.md"), std::regex(R"(\n\| \[[a-z-]+\.md\]\(([a-z/-]+\.md)\))"));
}

TEST_CASE("the index and the site have every page, in one order") {
  const auto listed = listed_pages();
  CHECK(matches(read_text(kRoot / "mkdocs.yml"), std::regex(R"(\n      - ([a-z/-]+\.md))")) == listed);
  std::set<std::string> pages;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "docs")) {
    if (entry.path().extension() == ".md") pages.insert(entry.path().lexically_relative(kRoot / "docs"));
  }
  pages.erase("index.md");
  CHECK(std::set<std::string>(listed.begin(), listed.end()) == pages);
  CHECK(listed.size() == pages.size());
}

TEST_CASE("files that the documentation names exist") {
  static const std::regex kFile(
      R"(`((?:core|data|images|columns|text|models|optim|callbacks|metrics|exported|loggers|rl|strategies|cli|tests)/[a-z_/]+\.(?:h|cpp|py))`)");
  std::vector<std::string> missing;
  std::size_t named = 0;
  for (const fs::path& document : documents()) {
    for (const std::string& file : matches(read_text(document), kFile)) {
      ++named;
      if (!fs::exists(kRoot / file)) missing.push_back(document.filename().string() + ": " + file);
    }
  }
  CHECK(named > 40);
  CHECK(missing == std::vector<std::string>());
}

/// A page's blocks of C++, in order.
std::vector<std::string> shown_code(const std::string& page) {
  const std::string begin = "```cpp\n";
  const std::string text = read_text(kRoot / page);
  std::vector<std::string> blocks;
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    at += begin.size();
    blocks.push_back(text.substr(at, text.find("```", at) - at));
  }
  return blocks;
}

TEST_CASE("the class that a page shows is one that is compiled") {
  const auto [page, source] = GENERATE(table<std::string, std::string>({
      {"first-hour", "acceptance/plugins/first_hour.cpp"},
      {"from-lightning", "acceptance/plugins/from_lightning.cpp"},
      {"metrics", "support/hit_rate.h"},
      {"streams", "support/sums.h"},
      {"extend/write-a-callback", "support/gradient_norm.h"},
      {"extend/write-a-data-module", "support/standardized_rows.h"},
      {"extend/write-a-logger", "support/json_lines.h"},
      {"extend/write-a-sampler", "support/block_shuffle.h"},
      {"extend/write-an-optimizer", "support/heavy_ball.h"},
      {"extend/write-a-strategy", "support/mean_gradients.h"},
      {"extend/write-an-accelerator", "support/toy_accelerator.h"},
  }));
  INFO(page);
  const std::string compiled = read_text(kRoot / "tests" / source);
  const auto is_compiled = [&](const std::string& block) { return compiled.find(block) != std::string::npos; };
  CHECK(std::ranges::any_of(shown_code("docs/" + page + ".md"), is_compiled));
}

TEST_CASE("the code on the page of embedding is what the application runs") {
  const auto without_indent = [](const std::string& text) { return std::regex_replace(text, std::regex("\n +"), "\n"); };
  const std::string program = without_indent(read_text(kRoot / "tests/acceptance/programs/embedding.cpp"));
  const std::vector<std::string> blocks = shown_code("docs/embedding.md");
  CHECK(blocks.size() >= 5);
  for (const std::string& block : blocks) {
    INFO(block);
    CHECK(program.find(without_indent(block)) != std::string::npos);
  }
}

std::string all_tests() {
  std::string tests;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    if (entry.path().extension() == ".cpp") tests += read_text(entry.path());
    // Cases that are texts: tests/acceptance/cases.
    if (entry.path().extension() == ".txt")
      tests += std::regex_replace(read_text(entry.path()), std::regex("\n== ([^\n]*)"), "\nTEST_CASE(\"$1\"");
    if (entry.path().extension() == ".py")
      tests += std::regex_replace(read_text(entry.path()), std::regex("def (test_\\w+)"), "\nTEST_CASE(\"$1\"");
  }
  return tests;
}

TEST_CASE("the tests that the documentation names exist") {
  const std::string tests = all_tests();
  std::vector<std::string> missing;
  std::size_t named = 0;
  for (const char* page : {"docs/internals/promises.md", "docs/internals/testing.md"}) {
    for (const std::string& test : matches(read_text(kRoot / page), std::regex(R"~([|;] test "([^\n"]+)")~"))) {
      ++named;
      if (tests.find("TEST_CASE(\"" + test + "\"") == std::string::npos) missing.push_back(test);
    }
  }
  CHECK(named > 60);
  CHECK(missing == std::vector<std::string>());
}

TEST_CASE("each wait that the documentation lists has a test") {
  const auto first_cells = [](const std::string& page, const std::string& heading) {
    const std::string text = read_text(kRoot / page);
    const std::string section = text.substr(text.find(heading));
    return matches(section.substr(0, section.find("\n## ", 1)), std::regex("\n\\| ([^|]+) \\|"));
  };
  std::vector<std::string> tested = first_cells("docs/internals/promises.md", "## [Waits]");
  std::vector<std::string> missing;
  for (std::string wait : first_cells("docs/internals/processes.md", "## What ends each wait")) {
    wait = std::regex_replace(wait, std::regex(" \\(`.*|:.*|, hooks, .*| \\(.*"), "");
    if (std::ranges::find(tested, wait == "what waits" ? "promise" : wait) == tested.end()) missing.push_back(wait);
  }
  CHECK(tested.size() > 20);
  CHECK(missing == std::vector<std::string>());
}

TEST_CASE("the README shows the example as it is") {
  const std::string module = read_text(kRoot / "examples/digits/module.cpp");
  for (const std::string& line : lines_of(shown_code("README.md").at(0))) {
    INFO(line);
    CHECK(module.find(line + "\n") != std::string::npos);
  }
}

TEST_CASE("the table of hooks says what log() does in each") {
  const std::string table = read_text(kRoot / "docs/hooks.md");
  for (int index = static_cast<int>(Hook::kPrepareData); index < static_cast<int>(Hook::kCount); ++index) {
    const auto hook = static_cast<Hook>(index);
    const HookPolicy policy = hook_policy(hook);
    const std::string log = !policy.may_log          ? "no"
                            : policy.epoch_only      ? "epoch only"
                            : policy.default_on_step ? "step"
                                                     : "epoch";
    const std::string row = "| `" + std::string(hook_name(hook)) + "` | " + log + " | ";
    INFO(row);
    CHECK(table.find(row) != std::string::npos);
  }
}

}  // namespace
}  // namespace levin::test
