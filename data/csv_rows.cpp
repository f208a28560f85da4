#include "levin/data/csv_rows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/csv_text.h"

namespace levin::detail {
namespace {

/// A quoted field that has line breaks: a longer one is a quote that is not closed.
constexpr std::size_t kLongestRow = 1u << 20;

}  // namespace

CsvRows::CsvRows(std::streambuf& text, std::string name, char delimiter)
    : lines_(&text), name_(std::move(name)), delimiter_(delimiter) {
  lines_.exceptions(std::ios::badbit);  // what reading throws
}

void CsvRows::fail(std::int64_t line, int column, const std::string& message) const {
  const auto shown = static_cast<int>(std::min<std::int64_t>(line, std::numeric_limits<int>::max()));
  throw IoError(format("{}: {}", Mark{name_, shown, column}.str(), message));
}

bool CsvRows::next() {
  while (next_line()) {
    line_ = lines_read_;
    text_ = next_;
    if (line_ == 1 && text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
    if (trim_field(text_).empty() && delimiter_ != '\t') continue;
    if (text_.empty()) continue;
    if (line_ == 1) check_is_text();
    append_lines_of_quotes();
    delimiter_ == ' ' ? split_at_blanks(text_) : split(text_);
    return true;
  }
  return false;
}

bool CsvRows::next_line() {
  if (lines_read_ == 0 ? !read_first_line() : !std::getline(lines_, next_, line_end_)) return false;
  ++lines_read_;
  while (next_.ends_with('\r')) next_.pop_back();
  return true;
}

/// It says by which character lines end.
bool CsvRows::read_first_line() {
  constexpr int kEnd = std::streambuf::traits_type::eof();
  std::streambuf& text = *lines_.rdbuf();
  bool is_quoted = false;
  int letter = text.sbumpc();
  if (letter == kEnd) return false;
  for (; letter != kEnd && letter != '\n'; letter = text.sbumpc()) {
    const int following = letter == '\r' ? text.sgetc() : kEnd;
    if (letter == '\r' && following != '\n' && following != '\r' && !is_quoted) {
      line_end_ = '\r';
      return true;
    }
    if (letter == '"') is_quoted = !is_quoted;
    next_ += static_cast<char>(letter);
  }
  return true;
}

/// A file of other text than its reader thinks may still look like a table, of wrong columns.
void CsvRows::check_is_text() const {
  const ContentKind kind = kind_of_content(text_);
  if (!kind.name.empty()) fail(1, format("the file is {}: {}", kind.name, kind.cure));
}

/// A quoted field continues over line breaks.
void CsvRows::append_lines_of_quotes() {
  bool is_quoted = false, is_at_start = true;
  std::size_t place = 0;
  while (true) {
    for (; place < text_.size(); ++place) {
      const char letter = text_[place];
      if (is_quoted) {
        if (letter != '"') continue;
        const bool is_doubled = place + 1 < text_.size() && text_[place + 1] == '"';
        if (is_doubled) ++place;
        is_quoted = is_doubled;
      } else if (letter == delimiter_) {
        is_at_start = true;
      } else if (letter == '"' && is_at_start) {
        is_quoted = true;
        is_at_start = false;
      } else if (letter != ' ') {
        is_at_start = false;
      }
    }
    if (!is_quoted || text_.size() > kLongestRow || !next_line()) return;
    text_ += '\n';
    text_ += next_;
  }
}

void CsvRows::split(std::string_view line) {
  fields_.clear();
  std::size_t begin = 0;
  while (true) {
    std::size_t start = begin;
    while (start < line.size() && line[start] == ' ') ++start;
    const bool is_quoted = start < line.size() && line[start] == '"';
    const std::size_t end = is_quoted ? end_of_quoted(line, start) : std::min(line.find(delimiter_, begin), line.size());
    std::string_view text = trim_field(line.substr(begin, end - begin));
    if (is_quoted) text = trim_field(text.substr(1, text.size() - 2));
    fields_.push_back({text, static_cast<int>(start) + 1});
    if (end == line.size()) return;
    begin = end + 1;
  }
}

void CsvRows::split_at_blanks(std::string_view line) {
  fields_.clear();
  std::size_t end = 0;
  for (std::size_t begin = line.find_first_not_of(" \t"); begin != std::string_view::npos;
       begin = line.find_first_not_of(" \t", end)) {
    const bool is_quoted = line[begin] == '"';
    end = is_quoted ? end_of_quoted(line, begin) : std::min(line.find_first_of(" \t", begin), line.size());
    std::string_view text = line.substr(begin, end - begin);
    if (is_quoted) text = trim_field(text.substr(1, text.size() - 2));
    fields_.push_back({text, static_cast<int>(begin) + 1});
  }
}

/// Where the field whose opening quote is at `start` ends: at a delimiter, or at the end of the row.
std::size_t CsvRows::end_of_quoted(std::string_view line, std::size_t start) const {
  std::size_t end = start + 1;
  while (true) {
    const std::size_t quote = line.find('"', end);
    if (quote == std::string_view::npos) fail(static_cast<int>(start) + 1, "the quote that opens here is not closed");
    end = quote + 1;
    if (end == line.size() || line[end] != '"') break;
    ++end;  // two quotes stand for one
  }
  if (delimiter_ == ' ' && end < line.size() && line[end] == '\t') return end;
  while (delimiter_ != ' ' && end < line.size() && line[end] == ' ') ++end;
  if (end < line.size() && line[end] != delimiter_) {
    const std::string_view rest = line.substr(end);
    const bool is_at_blanks = line[end - 1] == ' ' && rest.front() == '"';
    fail(static_cast<int>(end) + 1, format("text after a closing quote: {}{}", quoted_text(rest, 40),
                                           separator_hint(is_at_blanks ? " " : rest.substr(0, 1), delimiter_, is_at_blanks)));
  }
  return end;
}

}  // namespace levin::detail
