#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "levin/core/base/text.h"
#include "support/file_text.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

const fs::path kRoot = LEVIN_SOURCE_DIR;

Names matches(const std::string& text, const char* pattern) {
  const std::regex regex(pattern);
  Names found;
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) found.insert((*match)[1]);
  return found;
}

/// A row of the list in docs/internals/testing.md.
struct Statement {
  std::string text;
  std::string on_test_accelerator;
  std::string on_gpu;
};

std::vector<Statement> statements() {
  const std::string page = read_text(kRoot / "docs/internals/testing.md");
  const std::size_t begin = page.find("| statement | on the test accelerator | on a GPU |");
  REQUIRE(begin != std::string::npos);
  const std::size_t end = page.find("\n\n", begin);
  std::vector<Statement> found;
  for (const std::string& line : split(page.substr(begin, end - begin), "\n")) {
    const std::vector<std::string> cells = split(line, "|");
    REQUIRE(cells.size() == 5);
    found.push_back({cells[1], cells[2], cells[3]});
  }
  found.erase(found.begin(), found.begin() + 2);  // the table's head
  return found;
}

/// The checks of `make gpu-check`.
Names gpu_checks() {
  const std::string program = read_text(kRoot / "tests/gpu/gpu_check.py");
  Names checks = matches(program, R"(\n@(?:check|timed)\([^\n]*\)\ndef (\w+)\()");
  checks.merge(matches(program, R"re(\nunit_tests\("(\w+)")re"));
  for (const std::string& list : matches(program, R"(\nfor each in \(([^)]*)\):\n    precision)")) {
    checks.merge(matches(list, R"re("([^"]+)")re"));
  }
  return checks;
}

/// The tests of CTest that a cell may name: TARGET.FILE and acceptance_cases.FILE.
bool is_test(const std::string& name) {
  const std::size_t dot = name.find('.');
  if (dot == std::string::npos) return false;
  if (name.substr(0, dot) == "acceptance_cases")
    return fs::exists(kRoot / "tests/acceptance/cases" / (name.substr(dot + 1) + ".txt"));
  const auto has_name = [&](const fs::directory_entry& entry) {
    return entry.path().filename() == name.substr(dot + 1) + ".cpp";
  };
  return std::any_of(fs::recursive_directory_iterator(kRoot / "tests"), fs::recursive_directory_iterator(), has_name);
}

TEST_CASE("each statement about GPUs names the tests that it has, or says that it was not run") {
  const Names checks = gpu_checks();
  REQUIRE(checks.size() > 25);
  std::vector<std::string> wrong;
  for (const Statement& statement : statements()) {
    const Names tests = matches(statement.on_test_accelerator, "`([^`]+)`");
    const Names on_gpu = matches(statement.on_gpu, "`([^`]+)`");
    for (const std::string& name : tests) {
      if (!is_test(name)) wrong.push_back(name + " is no test:" + statement.text);
    }
    for (const std::string& name : on_gpu) {
      if (!checks.contains(name)) wrong.push_back(name + " is no check of make gpu-check:" + statement.text);
    }
    for (const auto& [cell, named] : {std::pair(statement.on_test_accelerator, tests), std::pair(statement.on_gpu, on_gpu)}) {
      if (named.empty() && cell.find("not yet run") == std::string::npos)
        wrong.push_back("neither tested nor not yet run:" + statement.text);
    }
  }
  CHECK(wrong == std::vector<std::string>());
}

TEST_CASE("each test of the test accelerator, each check of a GPU and each option for GPUs is in the list of statements") {
  std::string tests, on_gpu, texts;
  for (const Statement& statement : statements()) {
    tests += statement.on_test_accelerator;
    on_gpu += statement.on_gpu;
    texts += statement.text;
  }
  std::vector<std::string> missing;
  const auto need = [&](const std::string& text, const std::string& name) {
    if (text.find("`" + name) == std::string::npos) missing.push_back(name);
  };
  for (const auto& entry : fs::directory_iterator(kRoot / "tests/device")) {
    if (entry.path().extension() == ".cpp") need(tests, "device_tests." + entry.path().stem().string());
  }
  need(tests, "acceptance_cases.device");
  for (const std::string& name : gpu_checks()) need(on_gpu, name);
  for (const std::string& option :
       matches(read_text(kRoot / "docs/trainer.md"), R"(\n\| `(\w+)` \|[^\n]*(?:GPU|CUDA|cuDNN|TF32))")) {
    need(texts, option);
  }
  CHECK(missing == std::vector<std::string>());
}

}  // namespace
}  // namespace levin::test
