#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <deque>
#include <istream>
#include <limits>
#include <map>
#include <numeric>
#include <sstream>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/data/data_files.h"
#include "levin/data/input_file.h"

namespace levin {
namespace {

/// A quoted field that has line breaks: a longer one is a quote that nobody closes.
constexpr std::size_t kLongestRow = 1u << 20;
/// Of columns in a message.
constexpr std::size_t kMostNamed = 8;

struct Field {
  std::string_view text;  ///< without quotes; a doubled quote inside is still doubled
  int column = 0;         ///< byte of the row at which it starts, from 1
};

/// What is done with the fields of a column.
enum class Role : std::uint8_t { kNumber, kText, kClass, kIgnored, kIndex };

struct Column {
  Role role = Role::kNumber;
  std::map<std::string, double, std::less<>> texts = {};  ///< with the order in which they came
};

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<double> parse_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return parse_float(text);
}

std::optional<double> parse_truth(std::string_view text) {
  if (text == "True" || text == "true" || text == "TRUE") return 1.0;
  if (text == "False" || text == "false" || text == "FALSE") return 0.0;
  return std::nullopt;
}

std::optional<double> parse_value(std::string_view text) {
  const auto number = parse_number(text);
  return number ? number : parse_truth(text);
}

bool is_any_of(std::string_view text, std::initializer_list<std::string_view> known) {
  return std::find(known.begin(), known.end(), text) != known.end();
}

/// Where texts are expected, which may be called "None".
bool is_missing_text(std::string_view text) { return is_any_of(text, {"", "NA", "N/A", "null", "?"}); }

bool is_missing(std::string_view text) {
  return is_missing_text(text) || is_any_of(text, {"NULL", "None", "<NA>", "NaT", "n/a", "#N/A"});
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

/// The same with each digit a 0, each row of which is one: "2024-01-31" is "0-0-0".
std::string shape_of(std::string_view text) {
  std::string shape;
  for (const char letter : text) {
    if (!is_digit(letter)) shape += letter;
    if (is_digit(letter) && (shape.empty() || shape.back() != '0')) shape += '0';
  }
  return shape;
}

bool is_date(std::string_view text) {
  const std::string shape = shape_of(text);
  for (const std::string_view begin : {"0-0-0", "0/0/0", "0.0.0", "0:0"}) {
    if (shape.starts_with(begin)) return true;
  }
  return false;
}

/// "1,5", or "1,234.5".
bool has_comma_in_number(std::string_view text) {
  const std::string shape = shape_of(text);
  return shape.find(',') != std::string::npos && shape.find_first_not_of("0,.+-") == std::string::npos;
}

std::string unescape(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    plain += text[i];
    if (text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') ++i;
  }
  return plain;
}

/// The texts, sorted; puts the places that they have now in place of those in which they came.
std::vector<std::string> take_texts(const Column& column, const at::Tensor& values) {
  std::vector<std::string> texts;
  for (const auto& [text, came] : column.texts) texts.push_back(text);
  if (column.role == Role::kText && std::all_of(texts.begin(), texts.end(), parse_number)) {
    std::stable_sort(texts.begin(), texts.end(), [](const std::string& one, const std::string& other) {
      return *parse_number(one) < *parse_number(other);
    });
  }
  std::vector<double> place_of(texts.size());
  for (std::size_t place = 0; place < texts.size(); ++place)
    place_of[static_cast<std::size_t>(column.texts.at(texts[place]))] = static_cast<double>(place);
  auto accessor = values.accessor<double, 1>();
  for (std::int64_t row = 0; row < values.size(0); ++row) accessor[row] = place_of[static_cast<std::size_t>(accessor[row])];
  return texts;
}

class CsvParser {
 public:
  CsvParser(std::streambuf& text, const std::string& name, const CsvOptions& options)
      : lines_(&text), name_(name), options_(options) {
    lines_.exceptions(std::ios::badbit);  // what reading throws
  }

  CsvTable parse() {
    CsvTable table;
    while (next_row()) {
      if (columns_.empty() && begin(table)) continue;
      if (rows_ == options_.most_rows) break;
      if (fields_.size() != columns_.size()) fail_width();
      if (table.line_starts.empty() || line_ != last_row_line_ + 1) table.line_starts.emplace_back(rows_, line_);
      last_row_line_ = line_;
      for (std::size_t column = 0; column < fields_.size(); ++column) take(column);
      ++rows_;
    }
    end(table);
    return table;
  }

 private:
  [[noreturn]] void fail(int column, const std::string& message) const { fail(line_, column, message); }
  [[noreturn]] void fail(std::int64_t line, int column, const std::string& message) const {
    const auto shown = static_cast<int>(std::min<std::int64_t>(line, std::numeric_limits<int>::max()));
    throw IoError(format("{}: {}", Mark{name_, shown, column}.str(), message));
  }

  [[noreturn]] void fail_width() const {
    const std::size_t first_too_many = std::min(fields_.size() - 1, columns_.size());
    fail(fields_[first_too_many].column, format("this line has {} fields, the lines before it have {}{}", fields_.size(),
                                                columns_.size(), columns_.size() == 1 ? separator_hint(text_) : ""));
  }

  // The first line.

  std::optional<std::size_t> find(const std::vector<std::string>& names, const std::string& wanted) const {
    const auto found = find_column(names, static_cast<std::int64_t>(fields_.size()), wanted);
    return found ? std::optional(static_cast<std::size_t>(*found)) : std::nullopt;
  }

  /// Columns as the options have them.
  std::vector<Column> columns_as_told(const std::vector<std::string>& names) const {
    std::vector<Column> columns(fields_.size());
    for (const std::string& wanted : options_.text_columns)
      if (const auto column = find(names, wanted)) columns[*column].role = Role::kText;
    if (const auto column = find(names, options_.class_column)) columns[*column].role = Role::kClass;
    for (const std::string& wanted : options_.ignore_columns)
      if (const auto column = find(names, wanted)) columns[*column].role = Role::kIgnored;
    return columns;
  }

  /// A file of other text than its reader thinks may still look like a table, of wrong columns.
  void check_first_line() const {
    if (text_.starts_with("\xFF\xFE") || text_.starts_with("\xFE\xFF") || text_.find('\0') != std::string::npos)
      fail(1, "the text is no UTF-8, but UTF-16 or another: save the file as UTF-8");
    std::map<char, std::size_t> counts;
    bool is_quoted = false;
    for (const char letter : text_) {
      if (letter == '"') is_quoted = !is_quoted;
      if (!is_quoted) ++counts[letter];
    }
    for (const char separator : {';', '\t'}) {
      if (separator == options_.delimiter || fields_.size() == 1 || counts[separator] <= counts[options_.delimiter]) continue;
      fail(1, format("the line has more of {} than of the delimiter '{}'{}", separator == ';' ? "';'" : "tabs",
                     options_.delimiter, separator_hint(std::string_view(&separator, 1))));
    }
  }

  /// Takes the names of columns, and what is done with these. False: the line is a row.
  bool begin(CsvTable& table) {
    check_first_line();
    const bool has_names = is_header(table.notes);
    if (has_names) {
      for (const Field& field : fields_) table.columns_of_file.push_back(unescape(field.text));
    }
    columns_ = columns_as_told(table.columns_of_file);
    names_ = table.columns_of_file;
    if (has_names) find_index();
    table.width_of_file = static_cast<std::int64_t>(columns_.size());
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      if (columns_[column].role == Role::kIgnored || columns_[column].role == Role::kIndex) continue;
      table.places.push_back(static_cast<std::int64_t>(column));
      if (has_names) table.columns.push_back(names_[column]);
    }
    header_line_ = line_;
    return has_names;
  }

  /// Whether the line has the name of a column that the options have, which is no number.
  bool has_name_of_options() const {
    const auto is_field = [this](const std::string& name) {
      return !name.empty() && !parse_number(name) &&
             std::any_of(fields_.begin(), fields_.end(), [&](const Field& field) { return unescape(field.text) == name; });
    };
    return is_field(options_.class_column) ||
           std::any_of(options_.text_columns.begin(), options_.text_columns.end(), is_field) ||
           std::any_of(options_.ignore_columns.begin(), options_.ignore_columns.end(), is_field);
  }

  /// How many of the fields number the columns, as pandas does where these have no names: from 0, behind an empty field or at
  /// once. 0 where others are among them, but for columns that may hold texts and have one.
  std::size_t fields_that_count(const std::vector<Column>& columns) const {
    const std::size_t start = fields_[0].text.empty() ? 1 : 0;
    std::size_t count = 0;
    for (std::size_t column = start; column < fields_.size(); ++column) {
      if (fields_[column].text == format("{}", column - start)) {
        ++count;
      } else if (columns[column].role == Role::kNumber || parse_value(fields_[column].text)) {
        return 0;
      }
    }
    return count;
  }

  bool is_header(std::vector<std::string>& notes) const {
    if (options_.header) return *options_.header;
    if (has_name_of_options()) return true;
    std::vector<Column> columns = columns_as_told({});
    const std::size_t numbered = fields_that_count(columns);
    if (numbered > 2 || (numbered > 0 && fields_[0].text.empty())) {
      notes.push_back(
          format("{}:{}: the line numbers the columns (0, 1, …), as pandas writes it where they have no names: it is taken for "
                 "their names; set `header` to false if it is a sample",
                 name_, line_));
      return true;
    }
    if (numbered == 2) {
      fail(fields_[0].column,
           "the line numbers the columns (0, 1), as pandas writes it where they have no names, or is a sample: set `header` to "
           "true "
           "or false");
    }
    // A label may be a text in a line of numbers; a line with a text alone names it.
    if (fields_.size() == 1) columns[0] = {};
    const auto tells = [&](const Field& field) {
      return columns[static_cast<std::size_t>(&field - fields_.data())].role == Role::kNumber;
    };
    const auto is_name = [&](const Field& field) {
      return tells(field) && !parse_value(field.text) && !is_missing(field.text);
    };
    const auto is_number = [](const Field& field) { return parse_value(field.text).has_value(); };
    const auto name = std::find_if(fields_.begin(), fields_.end(), is_name);
    if (name == fields_.end()) {
      if (!options_.text_columns.empty() && std::none_of(fields_.begin(), fields_.end(), tells) &&
          std::none_of(fields_.begin(), fields_.end(), is_number)) {
        fail(fields_[0].column, "the line may name the columns, or be a sample of texts: set `header` to true or false");
      }
      return false;
    }
    if (std::any_of(fields_.begin(), fields_.end(), is_number)) {
      fail(name->column, format("{} is not a number, and other fields of the first line are: set `header` to true when the "
                                "line names the columns, or correct the field{}",
                                quoted_text(name->text, 40), separator_hint(name->text)));
    }
    return true;
  }

  /// Columns without a name at the beginning are what pandas and R write of a table's index.
  void find_index() {
    const auto is_unnamed = [this](std::size_t column) {
      return columns_[column].role == Role::kNumber && (names_[column].empty() || names_[column].starts_with("Unnamed: "));
    };
    std::size_t unnamed = 0;
    while (unnamed < columns_.size() && is_unnamed(unnamed)) ++unnamed;
    if (unnamed == 0 || columns_.size() == 1) return;
    if (unnamed > 1) {
      fail(
          1,
          format("the first {} columns have no name, as an index that pandas writes: leave them out with ignore_columns: [{}], "
                 "or name them",
                 unnamed, numbers_from_0(unnamed)));
    }
    columns_[0].role = Role::kIndex;
  }

  static std::string numbers_from_0(std::size_t count) {
    std::vector<std::string> numbers;
    for (std::size_t number = 0; number < count; ++number) numbers.push_back(format("{}", number));
    return join(numbers);
  }

  // A row.

  void take(std::size_t column) {
    const Field& field = fields_[column];
    switch (columns_[column].role) {
      case Role::kNumber:
        return values_.push_back(number(field, column));
      case Role::kText:
        return values_.push_back(text(field, column));
      case Role::kClass:
        return values_.push_back(label(field, column));
      case Role::kIndex:
        return take_index(field);
      case Role::kIgnored:
        return;
    }
  }

  void take_index(const Field& field) {
    const auto value = parse_number(field.text);
    const bool is_name = !value && !is_missing(field.text);
    has_index_of_names_ = has_index_of_names_ || is_name;
    index_.push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
  }

  /// Adds a text to those of the column, and gives its number there.
  double number_of(std::string_view text, Column& column) const {
    std::string plain;
    if (text.find('"') != std::string_view::npos) text = plain = unescape(text);
    const auto found = column.texts.find(text);
    if (found != column.texts.end()) return found->second;
    return column.texts.emplace(text, static_cast<double>(column.texts.size())).first->second;
  }

  double text(const Field& field, std::size_t column) {
    const bool is_nan = field.text == "nan" || field.text == "NaN" || field.text == "<NA>";
    if (!is_nan && !is_missing_text(field.text)) return number_of(field.text, columns_[column]);
    if (!options_.missing) fail_missing(field, column, "; in a column of texts it then is one more text");
    return number_of("", columns_[column]);
  }

  /// The number that a label is, or stands for.
  double label(const Field& field, std::size_t column) {
    const bool is_text = !parse_number(field.text) && !is_missing_text(field.text);
    const char* const kind = is_text ? "a text" : "a number";
    if (rows_ == 0) first_label_ = {is_text, line_};
    if (is_text != first_label_.is_text) {
      fail(field.column, format("the label {} is {}, that of line {} is not: labels are all numbers, or all texts",
                                quoted_text(field.text, 40), kind, first_label_.line));
    }
    return is_text ? number_of(field.text, columns_[column]) : number(field, column);
  }

  double number(const Field& field, std::size_t column) const {
    if (const auto value = parse_value(field.text)) {
      const bool is_written_out = std::any_of(field.text.begin(), field.text.end(), is_digit);
      if (std::isinf(*value) && is_written_out)
        fail(field.column, quoted_text(field.text, 40) + " is too large for a 64-bit float; write inf if it is meant");
      return std::isnan(*value) && options_.missing ? *options_.missing : *value;
    }
    if (!is_missing(field.text)) fail_number(field, column);
    if (options_.missing) return *options_.missing;
    fail_missing(field, column, "");
  }

  [[noreturn]] void fail_missing(const Field& field, std::size_t column, std::string_view more) const {
    fail(field.column, format("the value is missing ({}, column {}): set `missing` to the number that stands for it{}",
                              quoted_text(field.text, 40), name_of(column), more));
  }

  /// In a message.
  std::string name_of(std::size_t column) const {
    return names_.empty() || names_[column].empty() ? format("{}", column) : quoted_text(names_[column], 40);
  }

  [[noreturn]] void fail_number(const Field& field, std::size_t column) const {
    fail(field.column, format("{} is not a number{}", quoted_text(field.text, 40), cure_of(field.text, column)));
  }

  /// What to do about a text where a number belongs.
  std::string cure_of(std::string_view text, std::size_t column) const {
    if (const std::string hint = separator_hint(text); !hint.empty()) return hint;
    if (is_date(text)) {
      return format(
          " but a date or a time: leave column {} out with ignore_columns, or write a number in its place, such as the days "
          "since the first one",
          name_of(column));
    }
    if (has_comma_in_number(text)) return ": write it with a decimal point, and without anything between thousands";
    const bool has_letters = std::any_of(text.begin(), text.end(),
                                         [](unsigned char letter) { return (letter | 0x20) >= 'a' && (letter | 0x20) <= 'z'; });
    if (!has_letters) return format(" (column {})", name_of(column));
    // All of the line's at once: whoever has twenty such columns names them in one go.
    std::vector<std::string> named;
    std::size_t others = 0;
    for (std::size_t other = 0; other < columns_.size(); ++other) {
      const std::string_view field = fields_[other].text;
      if (columns_[other].role != Role::kNumber || parse_value(field) || is_missing(field)) continue;
      if (named.size() < kMostNamed) {
        named.push_back(name_of(other));
      } else {
        ++others;
      }
    }
    return format(
        ". Columns with texts in this line: {}{}. Name those that are categories in one_hot_columns or code_columns, and "
        "leave the others out with ignore_columns",
        join(named), others > 0 ? format(" and {} more", others) : "");
  }

  /// What to do about a field that another separator would divide.
  std::string separator_hint(std::string_view text) const {
    for (const char separator : {';', '\t'}) {
      if (separator == options_.delimiter || text.find(separator) == std::string_view::npos) continue;
      const char* const name = separator == ';' ? "';'" : "\"\\t\" (a tab)";
      return format("; if its fields are divided by {}, set `delimiter` to it", name);
    }
    return "";
  }

  // The end.

  void end(CsvTable& table) {
    const auto width = static_cast<std::int64_t>(table.places.size());
    table.values = at::empty({rows_, width}, at::kDouble);
    for (auto* place = table.values.mutable_data_ptr<double>(); !values_.empty(); values_.pop_front())
      *place++ = values_.front();
    for (std::int64_t place = 0; place < width; ++place) {
      const Column& column = columns_[static_cast<std::size_t>(table.places[static_cast<std::size_t>(place)])];
      if (column.texts.empty()) continue;
      std::vector<std::string> texts = take_texts(column, table.values.select(1, place));
      if (column.role == Role::kClass) {
        table.classes = std::move(texts);
      } else {
        table.texts[place] = std::move(texts);
      }
    }
    if (!columns_.empty() && columns_[0].role == Role::kIndex) check_index(table);
    if (table.places.size() == columns_.size()) table.places.clear();
  }

  void check_index(CsvTable& table) {
    const auto fail_with = [this](std::string_view what) {
      fail(header_line_, 1,
           format("the first column has no name, as an index that pandas writes, but its values {}: leave it out with "
                  "ignore_columns: [0], or name it",
                  what));
    };
    if (!has_index_of_names_) {
      const auto is_whole = [](double value) { return value == std::floor(value); };
      if (!std::all_of(index_.begin(), index_.end(), is_whole)) fail_with("are no whole numbers");
      std::sort(index_.begin(), index_.end());
      if (std::adjacent_find(index_.begin(), index_.end()) != index_.end()) fail_with("repeat");
    }
    table.notes.push_back(
        format("{}: its first column has no name, as the index that pandas writes, and is left out; name it there "
               "if it is data",
               name_));
  }

  // Lines and fields.

  /// Takes the next row that is not blank apart; false at the end.
  bool next_row() {
    while (next_line()) {
      line_ = lines_read_;
      text_ = next_;
      if (line_ == 1 && text_.starts_with("\xEF\xBB\xBF")) text_.erase(0, 3);
      if (trim(text_).empty() && options_.delimiter != '\t') continue;
      if (text_.empty()) continue;
      append_lines_of_quotes();
      split(text_);
      return true;
    }
    return false;
  }

  bool next_line() {
    if (!std::getline(lines_, next_)) return false;
    ++lines_read_;
    if (next_.ends_with('\r')) next_.pop_back();
    return true;
  }

  /// A quoted field goes on over line breaks.
  void append_lines_of_quotes() {
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
        } else if (letter == options_.delimiter) {
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

  void split(std::string_view line) {
    fields_.clear();
    std::size_t begin = 0;
    while (true) {
      std::size_t start = begin;
      while (start < line.size() && line[start] == ' ') ++start;
      const bool is_quoted = start < line.size() && line[start] == '"';
      const std::size_t end =
          is_quoted ? end_of_quoted(line, start) : std::min(line.find(options_.delimiter, begin), line.size());
      std::string_view text = trim(line.substr(begin, end - begin));
      if (is_quoted) text = trim(text.substr(1, text.size() - 2));
      fields_.push_back({text, static_cast<int>(start) + 1});
      if (end == line.size()) return;
      begin = end + 1;
    }
  }

  /// Where the field whose opening quote is at `start` ends: at a delimiter, or at the end of the row.
  std::size_t end_of_quoted(std::string_view line, std::size_t start) const {
    std::size_t end = start + 1;
    while (true) {
      const std::size_t quote = line.find('"', end);
      if (quote == std::string_view::npos) fail(static_cast<int>(start) + 1, "the quote that opens here is not closed");
      end = quote + 1;
      if (end == line.size() || line[end] != '"') break;
      ++end;  // two quotes stand for one
    }
    while (end < line.size() && line[end] == ' ') ++end;
    if (end < line.size() && line[end] != options_.delimiter) {
      fail(static_cast<int>(end) + 1, "text after a closing quote: " + quoted_text(line.substr(end), 40));
    }
    return end;
  }

  std::istream lines_;
  const std::string& name_;
  const CsvOptions& options_;
  std::string next_;           ///< the line that was read last
  std::string text_;           ///< of the current row
  std::vector<Field> fields_;  ///< of it
  std::vector<std::string> names_;
  std::vector<Column> columns_;  ///< of the file
  std::deque<double> values_;    ///< a vector that grows would need three times the memory
  std::vector<double> index_;    ///< of the column that is one; NaN for texts
  bool has_index_of_names_ = false;
  struct {
    bool is_text = false;
    std::int64_t line = 0;
  } first_label_;
  std::int64_t header_line_ = 0;
  std::int64_t last_row_line_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t line_ = 0;  ///< at which the row begins
  std::int64_t lines_read_ = 0;
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
