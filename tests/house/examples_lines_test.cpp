#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "support/file_text.h"

namespace levin::test {
namespace {

namespace fs = std::filesystem;

/// Lines that are neither blank nor a comment alone; texts in three quotes that begin a line are comments too.
int lines_of_code(const std::string& text, const std::string& comment) {
  std::istringstream lines(text);
  int count = 0;
  bool in_text = false;
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    const bool begins_text = !in_text && comment == "#" && line.starts_with("\"\"\"");
    if (in_text || begins_text) {
      in_text = line.find("\"\"\"", begins_text ? 3 : 0) == std::string::npos;
    } else if (!line.empty() && !line.starts_with(comment)) {
      ++count;
    }
  }
  return count;
}

struct Lines {
  int levin = 0;
  int lightning = 0;
  bool operator==(const Lines&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Lines& lines) { return out << lines.levin << " and " << lines.lightning; }

Lines counted(const fs::path& example) {
  Lines lines;
  for (const auto& entry : fs::directory_iterator(example)) {
    const std::string kind = entry.path().extension();
    if (kind == ".cpp" || kind == ".h") lines.levin += lines_of_code(read_text(entry.path()), "//");
    if (kind == ".yaml") lines.levin += lines_of_code(read_text(entry.path()), "#");
    if (kind == ".py") lines.lightning += lines_of_code(read_text(entry.path()), "#");
  }
  return lines;
}

/// The rows of the table with the columns `first`, `levin` and `Lightning`.
std::vector<Lines> told(const std::string& readme, const std::string& first = "part") {
  static const std::regex kRow(R"(\| [^|\n]+ \| (\d+) \| (\d+) \|)");
  const auto head = readme.find("| " + first + " | levin | Lightning |\n");
  std::vector<Lines> rows;
  if (head == std::string::npos) return rows;
  std::istringstream lines(readme.substr(head));
  std::string line;
  std::getline(lines, line);
  std::getline(lines, line);
  for (std::smatch row; std::getline(lines, line) && std::regex_match(line, row, kRow);) {
    rows.push_back({std::stoi(row[1]), std::stoi(row[2])});
  }
  return rows;
}

TEST_CASE("lines of code are those that are neither blank nor a comment") {
  CHECK(lines_of_code("// one\n\n  int x;  // two\n  /// three\n\t\n}\n", "//") == 2);
  CHECK(lines_of_code("# one\n\nx: 1 # two\n  y: '//'\n", "#") == 2);
  CHECK(lines_of_code("\"\"\"one\"\"\"\ndef f():\n    \"\"\"two\n    three\"\"\"\n    return 1\n", "#") == 2);
}

TEST_CASE("an example is at most a third longer than the same program in Lightning, and its README tells both lengths") {
  int compared = 0;
  for (const auto& entry : fs::directory_iterator(LEVIN_SOURCE_DIR "/examples")) {
    if (!fs::exists(entry.path() / "lightning.py")) continue;
    ++compared;
    INFO(entry.path().filename().string());
    const Lines all = counted(entry.path());
    CHECK(3 * all.levin <= 4 * all.lightning);
    std::vector<Lines> rows = told(read_text(entry.path() / "README.md"));
    REQUIRE(rows.size() >= 4);
    CHECK(rows.back() == all);
    rows.pop_back();
    Lines sum;
    for (const Lines& row : rows) sum = {sum.levin + row.levin, sum.lightning + row.lightning};
    CHECK(sum == all);
  }
  CHECK(compared >= 3);
}

TEST_CASE("programs are about as long as the same ones in Lightning, and their README tells both lengths") {
  const fs::path folder = LEVIN_SOURCE_DIR "/tests/acceptance/programs/twins";
  const std::string readme = read_text(folder / "README.md");
  const std::vector<Lines> rows = told(readme, "program");
  REQUIRE(rows.size() == 7);
  static const std::regex kName(R"(\n\| `(\w+)`)");
  auto name = std::sregex_iterator(readme.begin(), readme.end(), kName);
  double ratios = 0;
  for (const Lines& row : rows) {
    const std::string program = (*name++)[1];
    INFO(program);
    CHECK(row == Lines{lines_of_code(read_text(folder / (program + ".cpp")), "//"),
                       lines_of_code(read_text(folder / (program + ".py")), "#")});
    const double ratio = static_cast<double>(row.levin) / row.lightning;
    CHECK(ratio <= 1.4);
    ratios += ratio;
  }
  CHECK(ratios / 7 <= 1.25);
}

}  // namespace
}  // namespace levin::test
