#include "levin/cli/config/diagnostics.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>

#include "levin/cli/config/source_text.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/config/option_check.h"
#include "levin/core/version.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostShown = 20;
constexpr int kWidestLine = 160;

// The byte at which the character number `index` begins, or the end.
std::size_t byte_of_character(std::string_view line, int index) {
  std::size_t byte = 0;
  while (byte < line.size() && index > 0) {
    do {
      ++byte;
    } while (byte < line.size() && is_utf8_continuation(line[byte]));
    --index;
  }
  return byte;
}

std::string source_line_with_caret(const Mark& mark) {
  std::string line;
  try {
    line = SourceText::as_read(mark.file).line(mark.line);
  } catch (const ConfigError&) {
    return {};  // The file is not text, or gone: only the message is shown.
  }
  // Of a long line, the part around the column.
  const int column = std::max(mark.column, 1);
  const int first = std::max(0, column - kWidestLine / 2);
  const std::size_t begin = byte_of_character(line, first);
  const std::size_t end = byte_of_character(line, first + kWidestLine);
  const std::string shown = line.substr(begin, end - begin);
  std::string below;
  for (const char c : shown.substr(0, byte_of_character(shown, column - 1 - first))) {
    if (!is_utf8_continuation(c)) below += c == '\t' ? '\t' : ' ';
  }
  const std::string number = std::to_string(mark.line);
  return format("\n  {} | {}\n  {} | {}^", number, shown, std::string(number.size(), ' '), below);
}

/// The other version of levin that wrote a run's config.yaml, as its first line says; else "".
std::string other_version_of(const fs::path& file) {
  constexpr std::string_view kBegin = "# levin ";
  std::error_code ignored;
  std::string line;
  if (!fs::is_regular_file(file, ignored)) return "";
  std::ifstream stream(file);
  std::getline(stream, line);
  return line.starts_with(kBegin) && line.substr(kBegin.size()) != kVersion ? printable(line.substr(kBegin.size(), 40)) : "";
}

}  // namespace

std::vector<std::string> diagnostics(const ConfigError& error) {
  std::vector<ConfigError> errors = single_errors(error);
  std::stable_sort(errors.begin(), errors.end(), [](const ConfigError& left, const ConfigError& right) {
    return std::tie(left.mark().file, left.mark().line, left.mark().column) <
           std::tie(right.mark().file, right.mark().line, right.mark().column);
  });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(errors.size(), kMostShown); ++i) {
    texts.emplace_back(errors[i].what());
    if (errors[i].mark().line > 0) texts.back() += source_line_with_caret(errors[i].mark());
  }
  if (errors.size() > kMostShown) {
    const bool all_found = errors.size() < kMostConfigErrors;
    texts.push_back(format("{}{} more errors", all_found ? "and " : "and at least ", errors.size() - kMostShown));
  }
  std::set<std::string> files;
  for (const ConfigError& each : errors) {
    const std::string version = files.insert(each.mark().file).second ? other_version_of(each.mark().file) : "";
    if (version.empty()) continue;
    texts.push_back(format("{} was written by levin {}, and this is {}: CHANGELOG.md lists the changes", each.mark().file,
                           version, kVersion));
  }
  return texts;
}

}  // namespace levin::cli
