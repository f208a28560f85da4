#include "levin/cli/source_text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <tuple>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/paths.h"
#include "levin/core/options/option_check.h"
#include "levin/strategies/launch/rank_start.h"

namespace levin::cli {
namespace {

namespace fs = std::filesystem;

std::string content_of(const fs::path& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (status.type() == fs::file_type::not_found)
    throw ConfigError(format("there is no file '{}'{}", file, working_folder_of(file)));
  if (fs::is_directory(status)) throw ConfigError(format("'{}' is a folder; a YAML file is needed", file));
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw ConfigError(format("cannot read '{}': {}", file, std::strerror(errno)));
  std::string text(ConfigSize::kMostBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  if (text.size() > ConfigSize::kMostBytes)
    throw ConfigError(format("'{}' is larger than 16 MiB; that is no configuration", file));
  return text;
}

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
    return {};  // The file is no text, or gone: the message alone has to do.
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

}  // namespace

SourceText::SourceText(std::string name, std::string text) : name_(std::move(name)), text_(std::move(text)) {
  if (text_.starts_with("\xef\xbb\xbf")) text_.erase(0, 3);
  line_starts_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n' || (text_[i] == '\r' && (i + 1 == text_.size() || text_[i + 1] != '\n')))
      line_starts_.push_back(i + 1);
  }
  check();
}

void SourceText::check() const {
  const auto is_control = [](unsigned char byte) {
    return (byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f;
  };
  for (std::size_t i = 0; i < text_.size();) {
    const std::size_t length = utf8_length(std::string_view(text_).substr(i));
    if (length == 0 || is_control(text_[i])) {
      const auto line = std::upper_bound(line_starts_.begin(), line_starts_.end(), i) - line_starts_.begin() - 1;
      throw ConfigError(mark_at(static_cast<int>(line), static_cast<int>(i - line_starts_[line])),
                        length == 0 ? "not a text file: this is no UTF-8" : "not a text file: it has a control character here");
    }
    i += length;
  }
}

SourceText SourceText::from_file(const fs::path& file) {
  const std::string name = file.string();
  RunInputs& inputs = RunInputs::instance();
  if (auto text = inputs.take(name)) return SourceText(name, std::move(*text));
  std::string text = content_of(file);
  inputs.keep(name, text);
  return SourceText(name, std::move(text));
}

SourceText SourceText::as_read(const fs::path& file) {
  const auto text = RunInputs::instance().find(file.string());
  return text ? SourceText(file.string(), *text) : from_file(file);
}

std::string_view SourceText::line(int number) const {
  if (number < 1 || static_cast<std::size_t>(number) > line_starts_.size()) return {};
  const std::size_t begin = line_starts_[number - 1];
  const std::size_t end = static_cast<std::size_t>(number) < line_starts_.size() ? line_starts_[number] : text_.size();
  std::string_view line = std::string_view(text_).substr(begin, end - begin);
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.remove_suffix(1);
  return line;
}

Mark SourceText::mark_at(int line_index, int byte_in_line) const {
  const std::string_view text = line(line_index + 1);
  const auto byte = static_cast<std::size_t>(byte_in_line);
  const std::size_t end = std::min(byte, text.size());
  if (last_.line != line_index) last_ = {line_index, 0, 0};
  for (; last_.byte < end; ++last_.byte) last_.characters += is_utf8_continuation(text[last_.byte]) ? 0 : 1;
  for (; last_.byte > end; --last_.byte) last_.characters -= is_utf8_continuation(text[last_.byte - 1]) ? 0 : 1;
  // Past the end of a line, bytes are all there is to count.
  return {name_, line_index + 1, static_cast<int>(last_.characters + byte - end) + 1};
}

void ConfigSize::add(const Value& value, std::size_t level, const Mark& mark) {
  const bool is_container = value.is_list() || value.is_map();
  if (level + (is_container ? 1 : 0) > kMostLevels)
    throw ConfigError(mark, format("nested deeper than {} levels", kMostLevels));
  ++values_;
  if (values_ > kMostValues) throw ConfigError(mark, format("more than {} values, references unfolded", kMostValues));
  if (value.is_string()) bytes_ += value.as_string().size();
  if (bytes_ > kMostBytes) throw ConfigError(mark, format("texts of more than {} bytes, references unfolded", kMostBytes));
  if (value.is_list()) {
    for (const Value& element : value.as_list()) add(element, level + 1, mark);
  } else if (value.is_map()) {
    for (const auto& entry : value.as_map()) add(entry.second, level + 1, mark);
  }
}

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
  return texts;
}

}  // namespace levin::cli
