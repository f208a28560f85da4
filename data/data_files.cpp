#include "levin/data/data_files.h"

#include <ATen/ops/empty.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <deque>
#include <filesystem>
#include <istream>
#include <limits>
#include <map>
#include <new>
#include <sstream>
#include <system_error>

#include "levin/core/base/error.h"
#include "levin/core/base/format.h"
#include "levin/core/base/text.h"
#include "levin/core/files/paths.h"

namespace levin {
namespace {

constexpr std::uint64_t kAlwaysAllowed = 64u << 20;  // bytes that any file may expand to

const char* kind_of(std::filesystem::file_type type) {
  using Type = std::filesystem::file_type;
  if (type == Type::directory) return "a folder";
  if (type == Type::fifo) return "a pipe";
  return type == Type::socket ? "a socket" : "a device";
}

/// A file of data, read once from its beginning, and decompressed on the way when it is a gzip file.
class InputFile final : public std::streambuf {
 public:
  InputFile(const std::filesystem::path& path, double max_expansion)
      : path_(path), max_expansion_(max_expansion), buffer_(1u << 20) {
    std::error_code error;
    const std::filesystem::file_type type = std::filesystem::status(path, error).type();
    if (error) fail(error.message() + working_folder_of(path));
    // A pipe without a writer would be waited for.
    if (type != std::filesystem::file_type::regular) fail(format("it is {}, not a file", kind_of(type)));
    size_on_disk_ = std::filesystem::file_size(path, error);
    // Passes a file that is not compressed on as it is.
    errno = ENOMEM;
    file_ = gzopen(path.c_str(), "rbe");
    if (file_ == nullptr) fail(std::strerror(errno));
  }
  ~InputFile() override { gzclose_r(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::uint64_t size_on_disk() const { return size_on_disk_; }
  /// Reads on. False: there was nothing more.
  bool append_piece_to(std::string& content) {
    if (underflow() == traits_type::eof()) return false;
    content.append(gptr(), egptr());
    return true;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { throw IoError(format("{}: cannot be read: {}", path_, reason)); }

  int_type underflow() override {
    errno = 0;
    const int count = gzread(file_, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    if (count > 0) {
      read_ += static_cast<std::uint64_t>(count);
      if (gzdirect(file_) == 0) check_expansion();
      setg(buffer_.data(), buffer_.data(), buffer_.data() + count);
      return traits_type::to_int_type(buffer_[0]);
    }
    int code = Z_OK;
    const char* reason = gzerror(file_, &code);
    if (code == Z_BUF_ERROR) fail("the compressed data ends too early");
    if (count < 0 || code != Z_OK) fail(code == Z_ERRNO ? std::strerror(errno) : reason);
    return traits_type::eof();
  }

  void check_expansion() const {
    if (read_ <= kAlwaysAllowed) return;
    // Of what was read so far: a file that was made to fill the memory is known long before it has.
    const auto compressed = static_cast<std::uint64_t>(std::max<z_off_t>(gzoffset(file_), 0));
    if (static_cast<double>(read_) <= max_expansion_ * static_cast<double>(compressed)) return;
    fail(format(
        "its first {} bytes expand to {}, as those of a file do that was made to fill the memory; if that is right, raise "
        "`max_expansion`, or decompress it",
        compressed, read_));
  }

  std::filesystem::path path_;
  double max_expansion_;
  std::vector<char> buffer_;
  gzFile file_ = nullptr;
  std::uint64_t size_on_disk_ = 0;
  std::uint64_t read_ = 0;  ///< decompressed bytes
};

}  // namespace

std::string read_input_file(const std::filesystem::path& path, double max_expansion) {
  InputFile file(path, max_expansion);
  std::string content;
  try {
    content.reserve(file.size_on_disk());
    while (file.append_piece_to(content)) {
    }
    return content;
  } catch (const std::bad_alloc&) {
    throw IoError(path.string() + ": cannot be read: there is not enough memory for it");
  }
}

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
  return parse_float(text);
}

bool is_missing(std::string_view text) {
  return text.empty() || text == "NA" || text == "N/A" || text == "null" || text == "?";
}

class CsvParser {
 public:
  CsvParser(std::streambuf& text, const std::string& name, const CsvOptions& options)
      : lines_(&text), name_(name), options_(options) {
    lines_.exceptions(std::ios::badbit);  // what reading throws
  }

  CsvTable parse() {
    CsvTable table;
    while (next_line()) {
      if (width_ == 0 && is_header()) {
        for (const Field& field : fields_) table.columns.push_back(unescape(field.text));
      } else {
        if (width_ != 0 && fields_.size() != width_) fail_width();
        if (rows_ == 0) class_column_ = class_column_of(table.columns);
        if (table.line_starts.empty() || line_ != last_row_line_ + 1) table.line_starts.emplace_back(rows_, line_);
        last_row_line_ = line_;
        for (std::size_t column = 0; column < fields_.size(); ++column) {
          values_.push_back(column == class_column_ ? label(fields_[column]) : number(fields_[column]));
        }
        ++rows_;
      }
      width_ = fields_.size();
    }
    table.values = at::empty({rows_, static_cast<std::int64_t>(width_)}, at::kDouble);
    for (auto* place = table.values.mutable_data_ptr<double>(); !values_.empty(); values_.pop_front())
      *place++ = values_.front();
    if (!classes_.empty()) table.classes = take_classes(table.values.select(1, static_cast<std::int64_t>(*class_column_)));
    return table;
  }

 private:
  [[noreturn]] void fail(int column, const std::string& message) const {
    const auto line = static_cast<int>(std::min<std::int64_t>(line_, std::numeric_limits<int>::max()));
    throw IoError(format("{}: {}", Mark{name_, line, column}.str(), message));
  }

  [[noreturn]] void fail_width() const {
    const std::size_t first_too_many = std::min(fields_.size() - 1, width_);
    fail(fields_[first_too_many].column,
         format("this line has {} fields, the lines before it have {}", fields_.size(), width_));
  }

  static std::string unescape(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
      plain += text[i];
      if (text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') ++i;
    }
    return plain;
  }

  std::optional<std::size_t> class_column_of(const std::vector<std::string>& names) const {
    const auto found = find_column(names, static_cast<std::int64_t>(fields_.size()), options_.class_column);
    return found ? std::optional(static_cast<std::size_t>(*found)) : std::nullopt;
  }

  /// The number that a label is, or stands for.
  double label(const Field& field) {
    const bool is_text = !parse_number(field.text) && !is_missing(field.text);
    const char* const kind = is_text ? "a text" : "a number";
    if (rows_ == 0) first_label_ = {is_text, line_};
    if (is_text != first_label_.is_text) {
      fail(field.column, format("the label {} is {}, that of line {} is not: labels are all numbers, or all texts",
                                quoted_text(field.text, 40), kind, first_label_.line));
    }
    if (!is_text) return number(field);
    const auto size = static_cast<double>(classes_.size());
    return classes_.emplace(unescape(field.text), size).first->second;
  }

  /// The texts of the labels, sorted; puts the places that they have now in place of those in which they came.
  std::vector<std::string> take_classes(const at::Tensor& labels) {
    std::vector<std::string> texts;
    std::vector<double> place_of(classes_.size());
    for (const auto& [text, came] : classes_) {
      place_of[static_cast<std::size_t>(came)] = static_cast<double>(texts.size());
      texts.push_back(text);
    }
    auto accessor = labels.accessor<double, 1>();
    for (std::int64_t row = 0; row < rows_; ++row) accessor[row] = place_of[static_cast<std::size_t>(accessor[row])];
    return texts;
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

  double number(const Field& field) const {
    if (const auto value = parse_number(field.text)) {
      const bool is_written_out = field.text.find_first_of("0123456789") != std::string_view::npos;
      if (std::isinf(*value) && is_written_out)
        fail(field.column, quoted_text(field.text, 40) + " is too large for a 64-bit float; write inf if it is meant");
      return *value;
    }
    if (!is_missing(field.text))
      fail(field.column, quoted_text(field.text, 40) + " is not a number" + separator_hint(field.text));
    if (options_.missing) return *options_.missing;
    fail(field.column,
         format("the value is missing ({}): set `missing` to the number that stands for it", quoted_text(field.text, 40)));
  }

  bool is_header() const {
    if (options_.header) return *options_.header;
    const auto class_column = class_column_of({});
    // A label may be a text in a line of numbers.
    const auto may_be_text = [&](const Field& field) {
      return class_column && &field == &fields_[*class_column] && fields_.size() > 1;
    };
    const auto is_name = [&](const Field& field) {
      return !parse_number(field.text) && !is_missing(field.text) && !may_be_text(field);
    };
    const auto is_number = [](const Field& field) { return parse_number(field.text).has_value(); };
    const auto name = std::find_if(fields_.begin(), fields_.end(), is_name);
    if (name == fields_.end()) return false;
    if (std::any_of(fields_.begin(), fields_.end(), is_number)) {
      fail(name->column, format("{} is not a number, and other fields of the first line are: set `header` to true when the "
                                "line names the columns, or correct the field{}",
                                quoted_text(name->text, 40), separator_hint(name->text)));
    }
    return true;
  }

  /// Takes the next line that is not blank apart; false at the end.
  bool next_line() {
    while (std::getline(lines_, text_)) {
      std::string_view line = text_;
      if (++line_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
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
    std::size_t end = start + 1;
    while (true) {
      const std::size_t quote = line.find('"', end);
      if (quote == std::string_view::npos)
        fail(static_cast<int>(start) + 1, "the quote that opens here is not closed on this line");
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
  std::string text_;           ///< of the current line
  std::vector<Field> fields_;  ///< of it
  std::deque<double> values_;  ///< a vector that grows would need three times the memory
  std::optional<std::size_t> class_column_;
  std::map<std::string, double> classes_;  ///< the texts of labels, with the order in which they came
  struct {
    bool is_text = false;
    std::int64_t line = 0;
  } first_label_;
  std::int64_t last_row_line_ = 0;
  std::size_t width_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t line_ = 0;
};

}  // namespace

std::int64_t CsvTable::line_of(std::int64_t row) const {
  const auto next = std::upper_bound(line_starts.begin(), line_starts.end(), row,
                                     [](std::int64_t wanted, const auto& start) { return wanted < start.first; });
  return next == line_starts.begin() ? 0 : std::prev(next)->second + row - std::prev(next)->first;
}

std::optional<std::int64_t> find_column(const std::vector<std::string>& names, std::int64_t width, const std::string& wanted) {
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
