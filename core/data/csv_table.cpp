#include "levin/core/data/csv_table.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <charconv>

#include "levin/core/data/input_file.h"
#include "levin/core/error.h"

namespace levin {

namespace {

struct Field {
  std::string_view text;  ///< without quotes; a doubled quote inside is still doubled
  int column = 0;         ///< byte of the line at which it starts, from 1
};

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::optional<double> parse_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_missing(std::string_view text) {
  return text.empty() || text == "NA" || text == "N/A" || text == "null" || text == "?";
}

/// What a user may see of a field: short, and without control characters.
std::string quoted(std::string_view text) {
  std::string shown;
  for (const char letter : text.substr(0, 40))
    shown += static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f ? '?' : letter;
  return "'" + shown + (text.size() > 40 ? "…'" : "'");
}

class CsvParser {
 public:
  CsvParser(std::string_view text, const std::string& name, const CsvOptions& options)
      : rest_(text), name_(name), options_(options) {
    if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
  }

  CsvTable parse() {
    CsvTable table;
    while (next_line()) {
      if (width_ == 0 && is_header()) {
        for (const Field& field : fields_) table.columns.push_back(unescape(field.text));
      } else {
        if (width_ != 0 && fields_.size() != width_) fail_width();
        for (const Field& field : fields_) values_.push_back(number(field));
        ++rows_;
      }
      width_ = fields_.size();
    }
    table.values = at::empty({rows_, static_cast<std::int64_t>(width_)}, at::kDouble);
    std::copy(values_.begin(), values_.end(), table.values.mutable_data_ptr<double>());
    return table;
  }

 private:
  [[noreturn]] void fail(int column, const std::string& message) const {
    throw IoError(Mark{name_, line_, column}.str() + ": " + message);
  }

  [[noreturn]] void fail_width() const {
    const std::size_t first_too_many = std::min(fields_.size() - 1, width_);
    fail(fields_[first_too_many].column,
         "this line has " + std::to_string(fields_.size()) + " fields, the lines before it have " + std::to_string(width_));
  }

  static std::string unescape(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
      plain += text[i];
      if (text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') ++i;
    }
    return plain;
  }

  double number(const Field& field) const {
    if (const auto value = parse_number(field.text)) return *value;
    if (!is_missing(field.text)) fail(field.column, quoted(field.text) + " is not a number");
    if (options_.missing) return *options_.missing;
    fail(field.column, "the value is missing (" + quoted(field.text) + "): set `missing` to the number that stands for it");
  }

  bool is_header() const {
    if (options_.header) return *options_.header;
    const auto is_name = [](const Field& field) { return !parse_number(field.text) && !is_missing(field.text); };
    const auto is_number = [](const Field& field) { return parse_number(field.text).has_value(); };
    const auto name = std::find_if(fields_.begin(), fields_.end(), is_name);
    if (name == fields_.end()) return false;
    if (std::any_of(fields_.begin(), fields_.end(), is_number)) {
      fail(name->column, quoted(name->text) +
                             " is not a number, and other fields of the first line are: set `header` to true when " +
                             "the line names the columns, or correct the field");
    }
    return true;
  }

  /// Takes the next line that is not blank apart; false at the end.
  bool next_line() {
    while (!rest_.empty()) {
      ++line_;
      const std::size_t end = rest_.find('\n');
      std::string_view line = rest_.substr(0, end);
      rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (trim(line).empty() && options_.delimiter != '\t') continue;
      if (line.empty()) continue;
      split(line);
      return true;
    }
    return false;
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

  /// Where the field whose opening quote is at `start` ends: at a delimiter, or at the end of the line.
  std::size_t end_of_quoted(std::string_view line, std::size_t start) const {
    std::size_t quote = start;
    do {
      quote = line.find('"', quote + 1);
      if (quote == std::string_view::npos)
        fail(static_cast<int>(start) + 1, "the quote that opens here is not closed on this line");
    } while (quote + 1 < line.size() && line[quote + 1] == '"' && ++quote);
    std::size_t end = quote + 1;
    while (end < line.size() && line[end] == ' ') ++end;
    if (end < line.size() && line[end] != options_.delimiter) {
      fail(static_cast<int>(end) + 1, "text after a closing quote: " + quoted(line.substr(end)));
    }
    return end;
  }

  std::string_view rest_;
  const std::string& name_;
  const CsvOptions& options_;
  std::vector<Field> fields_;  ///< of the current line
  std::vector<double> values_;
  std::size_t width_ = 0;
  std::int64_t rows_ = 0;
  int line_ = 0;
};

}  // namespace

CsvTable parse_csv(std::string_view text, const std::string& name, const CsvOptions& options) {
  return CsvParser(text, name, options).parse();
}

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  return parse_csv(read_input_file(path), path.string(), options);
}

}  // namespace levin
