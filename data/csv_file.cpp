#include "levin/data/csv_file.h"

// A CSV file: rows of as many fields each (csv_rows.h), the first of which may name the columns (csv_head.h). A field is a
// number, or a text in a column that the options name (csv_text.h).

#include <ATen/ops/empty.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <deque>
#include <limits>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/csv_head.h"
#include "levin/data/csv_rows.h"
#include "levin/data/csv_text.h"
#include "levin/data/input_file.h"
#include "levin/data/text_codes.h"

namespace levin {
namespace {

using detail::CsvField;
using detail::CsvHead;
using detail::CsvRole;

/// Of columns in a message.
constexpr std::size_t kMostNamed = 8;

class CsvParser {
 public:
  CsvParser(std::streambuf& text, const std::string& name, const CsvOptions& options)
      : row_(text, name, options.delimiter), options_(options) {}

  CsvTable parse() {
    CsvTable table;
    std::int64_t last_line = 0;
    while (row_.next()) {
      if (pass_over_empty()) continue;
      if (head_.roles.empty() && begin(table)) continue;
      if (rows_ == options_.most_rows) break;
      if (row_.fields().size() != head_.roles.size()) fail_width();
      if (table.line_starts.empty() || row_.line() != last_line + 1) table.line_starts.emplace_back(rows_, row_.line());
      last_line = row_.line();
      for (std::size_t column = 0; column < head_.roles.size(); ++column) take(column);
      ++rows_;
    }
    end(table);
    return table;
  }

 private:
  /// Takes what the first row says. False: it is a sample.
  bool begin(CsvTable& table) {
    head_ = detail::read_head(row_, options_);
    texts_.resize(head_.roles.size());
    has_numbers_.resize(head_.roles.size());
    missing_.assign(head_.roles.size(), options_.missing);
    for (const auto& [name, value] : options_.missing_in)
      if (const auto column = find_column(head_.names, std::ssize(head_.roles), name))
        missing_[static_cast<std::size_t>(*column)] = value;
    header_line_ = row_.line();
    table.notes = head_.notes;
    table.columns_of_file = head_.names;
    table.width_of_file = static_cast<std::int64_t>(head_.roles.size());
    for (std::size_t column = 0; column < head_.roles.size(); ++column) {
      if (head_.roles[column] == CsvRole::kIgnored || head_.roles[column] == CsvRole::kIndex) continue;
      table.places.push_back(static_cast<std::int64_t>(column));
      if (head_.has_names) table.columns.push_back(head_.names[column]);
    }
    return head_.has_names;
  }

  /// A row whose fields are all empty, as spreadsheets write behind the last one.
  bool pass_over_empty() {
    const std::vector<CsvField>& fields = row_.fields();
    const auto is_empty = [](const CsvField& field) { return field.text.empty(); };
    if (fields.size() < 2 || !std::all_of(fields.begin(), fields.end(), is_empty)) return false;
    if (empty_rows_++ == 0) first_empty_line_ = row_.line();
    return true;
  }

  [[noreturn]] void fail_width() const {
    const std::vector<CsvField>& fields = row_.fields();
    const std::size_t expected = head_.roles.size(), first_too_many = std::min(fields.size() - 1, expected);
    std::string hint = expected == 1 ? detail::separator_hint(row_.text(), row_.delimiter(), true) : "";
    if (hint.empty() && rows_ == 0 && head_.has_names && expected > 1 && fields.size() == expected + 1) {
      hint =
          ": the first line has no name for the first column, as R's write.table() writes it (give it one, or use "
          "write.csv()), "
          "or lines end in a separator too many";
    } else if (hint.empty() && (rows_ == 0 || expected == 1) && fields.size() > expected) {
      hint = ": delete what stands before it if that is a title or a comment";
    }
    row_.fail(fields[first_too_many].column,
              format("this line has {} fields, the lines before it have {}{}", fields.size(), expected, hint));
  }

  // A row.

  void take(std::size_t column) {
    const CsvField& field = row_.fields()[column];
    switch (head_.roles[column]) {
      case CsvRole::kNumber:
        return values_.push_back(number(field, column));
      case CsvRole::kText:
        return values_.push_back(text(field, column));
      case CsvRole::kClass:
        return values_.push_back(label(field, column));
      case CsvRole::kIndex:
        return take_index(field);
      case CsvRole::kIgnored:
        return;
    }
  }

  void take_index(const CsvField& field) {
    const auto value = detail::parse_csv_number(field.text, options_.decimal);
    const bool is_name = !value && !detail::is_missing_value(field.text);
    has_index_of_names_ = has_index_of_names_ || is_name;
    index_.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
  }

  /// Adds a text to those of the column, and gives its number there.
  double number_of(std::string_view text, std::size_t column) {
    if (text.find('"') != std::string_view::npos) return texts_[column].number_of(detail::unescape_field(text));
    return texts_[column].number_of(text);
  }

  double text(const CsvField& field, std::size_t column) {
    if (!detail::is_missing_category(field.text)) return number_of(field.text, column);
    if (!missing_[column]) fail_missing(field, column, "; in a column of texts it then is one more text");
    return is_marked(column) ? *missing_[column] : number_of("", column);
  }

  /// The number that a label is, or stands for.
  double label(const CsvField& field, std::size_t column) {
    const auto parsed = detail::parse_csv_number(field.text, options_.decimal);
    if (detail::is_missing_text(field.text) || (parsed && std::isnan(*parsed))) {
      if (is_marked(column)) return *missing_[column];
      fail_incomplete(field, column);
    }
    const bool is_text = !parsed;
    const char* const kind = is_text ? "a text" : "a number";
    if (first_label_.line == 0) first_label_ = {is_text, row_.line()};
    if (is_text != first_label_.is_text) {
      row_.fail(field.column, format("the label {} is {}, that of line {} is not: labels are all numbers, or all texts",
                                     quoted_text(field.text, 40), kind, first_label_.line));
    }
    return is_text ? number_of(field.text, column) : number(field, column);
  }

  double number(const CsvField& field, std::size_t column) {
    if (const auto value = detail::parse_csv_value(field.text, options_.decimal)) {
      if (std::isnan(*value) && head_.complete[column] && !is_marked(column)) fail_incomplete(field, column);
      has_numbers_[column] = true;
      const bool is_written_out = std::any_of(field.text.begin(), field.text.end(), detail::is_digit);
      if (std::isinf(*value) && is_written_out)
        row_.fail(field.column, quoted_text(field.text, 40) + " is too large for a 64-bit float; write inf if it is meant");
      return std::isnan(*value) && missing_[column] ? *missing_[column] : *value;
    }
    if (!detail::is_missing_value(field.text)) fail_number(field, column);
    if (head_.complete[column] && !is_marked(column)) fail_incomplete(field, column);
    if (missing_[column]) return *missing_[column];
    fail_missing(field, column, "");
  }

  /// Whether missing values become NaN there, also those of labels.
  bool is_marked(std::size_t column) const { return missing_[column] && std::isnan(*missing_[column]); }

  // Errors.

  [[noreturn]] void fail_missing(const CsvField& field, std::size_t column, std::string_view more) const {
    row_.fail(field.column, format("the value is missing ({}, column {}): set `missing` to the number that stands for it{}",
                                   quoted_text(field.text, 40), name_of(column), more));
  }

  [[noreturn]] void fail_incomplete(const CsvField& field, std::size_t column) const {
    row_.fail(field.column, format("the label is missing ({}, column {}): leave the row out, or choose another column",
                                   quoted_text(field.text, 40), name_of(column)));
  }

  /// In a message.
  std::string name_of(std::size_t column) const {
    return head_.names.empty() || head_.names[column].empty() ? format("{}", column) : quoted_text(head_.names[column], 40);
  }

  [[noreturn]] void fail_number(const CsvField& field, std::size_t column) const {
    row_.fail(field.column, format("{} is not a number{}", quoted_text(field.text, 40), cure_of(field.text, column)));
  }

  /// What to do about a text where a number belongs.
  std::string cure_of(std::string_view text, std::size_t column) const {
    if (const std::string hint = detail::separator_hint(text, row_.delimiter(), head_.roles.size() == 1); !hint.empty())
      return hint;
    if (detail::is_date(text)) {
      return format(
          " but a date or a time: leave column {} out with ignore_columns, or write a number instead, such as the days "
          "since the first one",
          name_of(column));
    }
    if (detail::has_comma_in_number(text)) {
      const bool may_be_decimal = options_.decimal == '.' && detail::parse_csv_number(text, ',');
      return format(": write it with a decimal point, and without anything between thousands{}",
                    may_be_decimal ? "; if the comma is its decimal mark, set `decimal` to ','" : "");
    }
    if (options_.decimal == ',' && detail::parse_csv_number(text)) return ": `decimal` is ',', and it has a point";
    if (repeats_names()) return ": the line names the columns again: delete it";
    if (has_numbers_[column]) {
      return format(
          ", and column {} has numbers in the lines before: correct it; where it stands for a missing value, write NA and set "
          "`missing`; if the column has categories, name it in one_hot_columns or code_columns",
          name_of(column));
    }
    if (head_.complete[column]) return format(": labels of task: regression are numbers (column {})", name_of(column));
    const bool has_letters = std::any_of(text.begin(), text.end(),
                                         [](unsigned char letter) { return (letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'; });
    if (!has_letters) return format(" (column {})", name_of(column));
    // All of the line's at once: a user with twenty such columns names them in one go.
    std::vector<std::string> named;
    std::size_t others = 0, numbers = 0;
    for (std::size_t other = 0; other < head_.roles.size(); ++other) {
      const std::string_view field = row_.fields()[other].text;
      const bool is_text = !detail::parse_csv_value(field, options_.decimal) && !detail::is_missing_value(field);
      if (head_.roles[other] == CsvRole::kNumber && !is_text) ++numbers;
      if (head_.roles[other] != CsvRole::kNumber || !is_text) continue;
      if (named.size() < kMostNamed) {
        named.push_back(name_of(other));
      } else {
        ++others;
      }
    }
    return format(
        ". Columns with texts in this line: {}{}. Name those that are categories in one_hot_columns or code_columns, and "
        "leave the others out with ignore_columns{}",
        join(named), others > 0 ? format(" and {} more", others) : "",
        rows_ == 0 && head_.has_names && numbers == 0 && named.size() > 1 ? "; if the line has units, or names again, delete it"
                                                                          : "");
  }

  bool repeats_names() const {
    const auto is_name = [](const CsvField& field, const std::string& name) {
      return detail::unescape_field(field.text) == name;
    };
    return head_.has_names && std::equal(row_.fields().begin(), row_.fields().end(), head_.names.begin(), is_name);
  }

  // The end.

  void end(CsvTable& table) {
    const auto width = static_cast<std::int64_t>(table.places.size());
    table.values = at::empty({rows_, width}, at::kDouble);
    for (auto* place = table.values.mutable_data_ptr<double>(); !values_.empty(); values_.pop_front())
      *place++ = values_.front();
    for (std::int64_t place = 0; place < width; ++place) {
      const auto column = static_cast<std::size_t>(table.places[static_cast<std::size_t>(place)]);
      if (texts_[column].empty()) continue;
      const CsvRole role = head_.roles[column];
      std::vector<std::string> texts =
          texts_[column].sort(role == CsvRole::kText, options_.decimal, table.values.select(1, place));
      if (role == CsvRole::kClass) {
        table.classes = std::move(texts);
        table.class_place = place;
      } else {
        table.texts[place] = std::move(texts);
      }
    }
    if (!head_.roles.empty() && head_.roles[0] == CsvRole::kIndex) check_index(table);
    if (empty_rows_ > 0) {
      table.notes.push_back(format("{}: {} without any value passed over, the first in line {}", row_.name(),
                                   counted(empty_rows_, "row"), first_empty_line_));
    }
    if (table.places.size() == head_.roles.size()) table.places.clear();
  }

  void check_index(CsvTable& table) {
    const auto fail_with = [this](std::string_view what) {
      row_.fail(header_line_, 1,
                format("the first column has no name, as an index that pandas writes, but its values {}: leave it out with "
                       "ignore_columns: [0], or name it",
                       what));
    };
    if (!has_index_of_names_) {
      const auto is_whole = [](double value) { return value == std::floor(value); };
      if (!std::all_of(index_.begin(), index_.end(), is_whole)) fail_with("are not whole numbers");
      std::sort(index_.begin(), index_.end());
      if (std::adjacent_find(index_.begin(), index_.end()) != index_.end()) fail_with("repeat");
    }
    table.notes.push_back(
        format("{}: its first column has no name, as the index that pandas writes, and is left out; name it there "
               "if it is data",
               row_.name()));
  }

  detail::CsvRows row_;  ///< the current one
  const CsvOptions& options_;
  CsvHead head_;
  std::vector<detail::TextCodes> texts_;  ///< of all columns of the file
  std::deque<double> values_;             ///< a vector that grows would need three times the memory
  std::vector<double> index_;             ///< of the column that is one; NaN for texts
  bool has_index_of_names_ = false;
  std::vector<std::optional<double>> missing_;  ///< of all columns, what stands for missing values
  std::vector<bool> has_numbers_;               ///< of all columns, in the rows before
  std::size_t empty_rows_ = 0;
  std::int64_t first_empty_line_ = 0;
  struct {
    bool is_text = false;
    std::int64_t line = 0;
  } first_label_;
  std::int64_t header_line_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace

std::int64_t CsvTable::line_of(std::int64_t row) const {
  const auto next = std::upper_bound(line_starts.begin(), line_starts.end(), row,
                                     [](std::int64_t wanted, const auto& start) { return wanted < start.first; });
  return next == line_starts.begin() ? 0 : std::prev(next)->second + row - std::prev(next)->first;
}

std::optional<std::int64_t> find_column(const std::vector<std::string>& names, std::int64_t width, const std::string& wanted) {
  if (wanted.empty()) return std::nullopt;
  const auto named = std::find(names.begin(), names.end(), wanted);
  if (named != names.end()) return named - names.begin();
  std::int64_t column = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), column);
  const bool is_number = error == std::errc() && end == wanted.data() + wanted.size();
  if (!is_number || column < -width || column >= width) return std::nullopt;
  return column < 0 ? column + width : column;
}

CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options) {
  std::stringbuf buffer{std::string(text)};
  return CsvParser(buffer, name, options).parse();
}

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  InputFile file(path, options.max_expansion);
  return CsvParser(file, path.string(), options).parse();
}

}  // namespace levin
