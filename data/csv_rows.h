#pragma once

// The rows of a CSV file: a line each, which ends in LF or CRLF, or in all of the file in CR. A byte order mark before the
// first is passed over, and so are lines of blanks alone. Fields are divided by the delimiter:
//
//     red, 1.5 ,"two ""words"", and
//     a line break",4
//
// A field in double quotes may have delimiters, line breaks and, doubled, quotes. Blanks around fields are not part of them.
// Where the delimiter is a blank, several and tabs divide as one does, and those at the ends of a line divide nothing.

#include <cstdint>
#include <istream>
#include <streambuf>
#include <string>
#include <string_view>
#include <vector>

namespace levin::detail {

struct CsvField {
  std::string_view text;  ///< without quotes; a doubled quote inside is still doubled
  int column = 0;         ///< byte of the row at which it starts, from 1
};

/// Reads them one after another. `name` stands for the file in messages.
class CsvRows {
 public:
  CsvRows(std::streambuf& text, std::string name, char delimiter);

  /// Reads the next row; false at the end. Throws IoError where quotes are wrong.
  bool next();
  /// Of the row that was read last.
  const std::vector<CsvField>& fields() const { return fields_; }
  const std::string& text() const { return text_; }
  std::int64_t line() const { return line_; }

  const std::string& name() const { return name_; }
  char delimiter() const { return delimiter_; }
  /// Throws IoError that names the file, the line (the current row's) and the byte in it.
  [[noreturn]] void fail(int column, const std::string& message) const { fail(line_, column, message); }
  [[noreturn]] void fail(std::int64_t line, int column, const std::string& message) const;

 private:
  bool next_line();
  bool read_first_line();
  void append_lines_of_quotes();
  void check_is_text() const;
  void split(std::string_view line);
  void split_at_blanks(std::string_view line);
  std::size_t end_of_quoted(std::string_view line, std::size_t start) const;

  std::istream lines_;
  char line_end_ = '\n';
  std::string name_;
  char delimiter_;
  std::string next_;  ///< the line that was read last
  std::string text_;  ///< of the current row
  std::vector<CsvField> fields_;
  std::int64_t line_ = 0;  ///< at which the row begins
  std::int64_t lines_read_ = 0;
};

}  // namespace levin::detail
