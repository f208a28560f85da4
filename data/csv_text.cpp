#include "levin/data/csv_text.h"

#include <algorithm>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::detail {
namespace {

bool is_any_of(std::string_view text, std::initializer_list<std::string_view> known) {
  return std::find(known.begin(), known.end(), text) != known.end();
}

std::optional<double> parse_truth(std::string_view text) {
  if (text == "True" || text == "true" || text == "TRUE") return 1.0;
  if (text == "False" || text == "false" || text == "FALSE") return 0.0;
  return std::nullopt;
}

/// The same with each digit a 0, each row of which is one: "2024-01-31" is "0-0-0".
std::string shape_of(std::string_view text) {
  std::string shape;
  for (const char letter : text) {
    if (!is_digit(letter)) shape += letter;
    if (is_digit(letter) && (shape.empty() || shape.back() != '0')) shape += '0';
  }
  return shape;
}

}  // namespace

std::string_view trim_field(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::string unescape_field(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    plain += text[i];
    if (text[i] == '"' && i + 1 < text.size() && text[i + 1] == '"') ++i;
  }
  return plain;
}

std::optional<double> parse_csv_number(std::string_view text, char decimal) {
  if (decimal != '.' && text.find_first_of(".,") != std::string_view::npos) {
    std::string with_point(text);
    const std::size_t mark = text.find(decimal);
    if (mark == std::string_view::npos || text.find('.') != std::string_view::npos) return std::nullopt;
    with_point[mark] = '.';
    return parse_csv_number(with_point);
  }
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return parse_float(text);
}

std::optional<double> parse_csv_value(std::string_view text, char decimal) {
  const auto number = parse_csv_number(text, decimal);
  return number ? number : parse_truth(text);
}

bool is_missing_text(std::string_view text) { return is_any_of(text, {"", "NA", "N/A", "null", "?"}); }

bool is_missing_value(std::string_view text) {
  return is_missing_text(text) || is_any_of(text, {"NULL", "None", "<NA>", "NaT", "n/a", "#N/A", "#NA", "#N/A N/A", "\\N", ".",
                                                   "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"});
}

bool is_missing_category(std::string_view text) { return is_missing_text(text) || is_any_of(text, {"nan", "NaN", "<NA>"}); }

ContentKind kind_of_content(std::string_view begin) {
  using namespace std::string_view_literals;
  struct Kind {
    std::string_view begin;
    ContentKind kind;
  };
  static constexpr Kind kKinds[] = {{"PAR1", {"a Parquet file", "give it a name that ends in .parquet"}},
                                    {"PK\x03\x04", {"an Excel workbook, or another zip file"}},
                                    {"\xD0\xCF\x11\xE0", {"an Excel workbook"}},
                                    {"SQLite format 3\0"sv, {"an SQLite database"}},
                                    {"ARROW1\0"sv, {"a Feather file", "give it a name that ends in .feather"}},
                                    {"\x89HDF\r\n", {"an HDF5 file", "ArrayDataModule reads its arrays"}},
                                    {"\x93NUMPY", {"a NumPy file", "give it a name that ends in .npy"}},
                                    {"\x80\x04\x95", {"a pickle of Python"}},
                                    {"\x80\x05\x95", {"a pickle of Python"}},
                                    {"BZh91AY&SY", {"a file that bzip2 has compressed"}},
                                    {"\xFD\x37zXZ\0"sv, {"a file that xz has compressed"}},
                                    {"\x28\xB5\x2F\xFD", {"a file that zstd has compressed"}},
                                    {"%PDF-", {"a PDF file"}},
                                    {"version https://git-lfs", {"a pointer of Git LFS (`git lfs pull` gets the file itself)"}},
                                    {"{\"", {"a JSON file"}},
                                    {"[{", {"a JSON file"}},
                                    {"@relation", {"an ARFF file"}},
                                    {"@RELATION", {"an ARFF file"}},
                                    {"<!DOCTYPE", {"an HTML file"}},
                                    {"<html", {"an HTML file"}},
                                    {"<table", {"an HTML file"}},
                                    {"<?xml", {"an XML file"}}};
  for (const Kind& kind : kKinds)
    if (begin.starts_with(kind.begin)) return kind.kind;
  const bool is_utf16 =
      begin.starts_with("\xFF\xFE") || begin.starts_with("\xFE\xFF") || begin.find('\0') != std::string_view::npos;
  return is_utf16 ? ContentKind{"text in UTF-16, or no text", "save it as UTF-8"} : ContentKind{};
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool is_date(std::string_view text) {
  const std::string shape = shape_of(text);
  // A month: "1949-01".
  if (shape == "0-0" && text.size() == 7 && text[4] == '-' && (text[0] == '1' || text[0] == '2')) return true;
  for (const std::string_view begin : {"0-0-0", "0/0/0", "0.0.0", "0:0"}) {
    if (shape.starts_with(begin)) return true;
  }
  return false;
}

bool has_comma_in_number(std::string_view text) {
  const std::string shape = shape_of(text);
  return shape.find(',') != std::string::npos && shape.find_first_not_of("0,.+-") == std::string::npos;
}

std::string separator_hint(std::string_view text, char delimiter, bool or_blanks) {
  struct Separator {
    char letter;
    std::string_view name;
  };
  const bool may_be_blanks = or_blanks && text.find_first_not_of("0123456789.+-eE ") == std::string_view::npos;
  for (const auto& [letter, name] : {Separator{';', "';'"}, {'\t', "\"\\t\" (a tab)"}, {'|', "'|'"}, {' ', "\" \" (blanks)"}}) {
    if (letter == delimiter || text.find(letter) == std::string_view::npos || (letter == ' ' && !may_be_blanks)) continue;
    return format("; if its fields are divided by {}, set `delimiter` to it", name);
  }
  return "";
}

}  // namespace levin::detail
