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

std::optional<double> parse_csv_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  return parse_float(text);
}

std::optional<double> parse_csv_value(std::string_view text) {
  const auto number = parse_csv_number(text);
  return number ? number : parse_truth(text);
}

bool is_missing_text(std::string_view text) { return is_any_of(text, {"", "NA", "N/A", "null", "?"}); }

bool is_missing_value(std::string_view text) {
  return is_missing_text(text) || is_any_of(text, {"NULL", "None", "<NA>", "NaT", "n/a", "#N/A"});
}

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

bool is_date(std::string_view text) {
  const std::string shape = shape_of(text);
  for (const std::string_view begin : {"0-0-0", "0/0/0", "0.0.0", "0:0"}) {
    if (shape.starts_with(begin)) return true;
  }
  return false;
}

bool has_comma_in_number(std::string_view text) {
  const std::string shape = shape_of(text);
  return shape.find(',') != std::string::npos && shape.find_first_not_of("0,.+-") == std::string::npos;
}

std::string separator_hint(std::string_view text, char delimiter) {
  for (const char separator : {';', '\t'}) {
    if (separator == delimiter || text.find(separator) == std::string_view::npos) continue;
    const char* const name = separator == ';' ? "';'" : "\"\\t\" (a tab)";
    return format("; if its fields are divided by {}, set `delimiter` to it", name);
  }
  return "";
}

}  // namespace levin::detail
