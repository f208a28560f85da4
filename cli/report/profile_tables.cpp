#include "levin/cli/report/profile_tables.h"

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "levin/core/base/text.h"
#include "levin/core/files/file_bytes.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

Value::List cells_of(std::string_view line) {
  Value::List cells;
  for (const std::string& cell : split(line, "|")) {
    const std::size_t begin = cell.find_first_not_of(' ');
    cells.push_back(begin == std::string::npos ? "" : cell.substr(begin, cell.find_last_not_of(' ') + 1 - begin));
  }
  return cells;
}

bool is_rule(const std::string& line) { return line.size() > 2 && line.find_first_not_of('-') == std::string::npos; }

}  // namespace

Value tables_of_text(std::string_view text, std::size_t most_rows) {
  const std::vector<std::string> lines = split(text, "\n");
  Value::List tables;
  for (std::size_t line = 1; line < lines.size(); ++line) {
    if (!is_rule(lines[line]) || lines[line - 1].find(" | ") == std::string::npos) continue;
    Value::List columns = cells_of(lines[line - 1]);
    Value::List rows;
    while (line + 1 < lines.size() && lines[line + 1].find('|') != std::string::npos) {
      Value::List cells = cells_of(lines[++line]);
      cells.resize(columns.size());
      if (rows.size() < most_rows) rows.emplace_back(std::move(cells));
    }
    tables.push_back(Value::Map{{"columns", std::move(columns)}, {"rows", std::move(rows)}});
  }
  return tables;
}

Value profile_tables(const fs::path& run) {
  constexpr std::size_t kMostRows = 30;
  constexpr std::size_t kMostFiles = 16;
  constexpr std::size_t kLongestFile = 1 << 20;
  static const std::regex kName("((?:fit|validate|test|predict)-.+)-([0-9]{1,6})\\.txt");
  std::map<std::pair<std::string, int>, fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(run, error), end; !error && entry != end; entry.increment(error)) {
    std::smatch parts;
    const std::string name = entry->path().filename();
    if (std::regex_match(name, parts, kName)) files.emplace(std::pair(parts[1], std::stoi(parts[2])), entry->path());
  }
  Value::List profiles;
  for (const auto& [key, file] : files) {
    if (profiles.size() == kMostFiles) break;
    const auto text = file_bytes(file, kLongestFile, Links::kRefused);
    if (!text) continue;
    Value tables = tables_of_text(*text, kMostRows);
    if (tables.size() == 0) continue;
    profiles.push_back(Value::Map{{"name", key.first}, {"rank", key.second}, {"tables", std::move(tables)}});
  }
  return profiles;
}

}  // namespace levin::cli
