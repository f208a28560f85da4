#include "levin/cli/yaml_scalar.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <regex>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin::cli {
namespace {

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* word) { return text == word; });
}

[[noreturn]] void throw_too_large(const std::string& text) {
  throw ConfigError(format("the number {} does not fit into 64 bits; put it in quotes if it is meant as text", text));
}

std::optional<double> special_float(const std::string& text) {
  const bool sign = text[0] == '+' || text[0] == '-';
  if (is_one_of(text.substr(sign ? 1 : 0), {".inf", ".Inf", ".INF"}))
    return text[0] == '-' ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  if (is_one_of(text, {".nan", ".NaN", ".NAN"})) return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

std::int64_t parse_int(const std::string& digits, int base, const std::string& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size()) throw_too_large(text);
  return number;
}

}  // namespace

Value resolve_plain_scalar(const std::string& text) {
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return Value();
  if (is_one_of(text, {"true", "True", "TRUE"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE"})) return false;
  if (const auto number = special_float(text)) return *number;

  // Longer texts are no numbers, and std::regex recurses over its input.
  if (text.size() > 400 || text.find_first_of("0123456789") == std::string::npos) return text;
  static const std::regex kDecimal("[-+]?[0-9](_?[0-9])*");
  static const std::regex kOtherBase("0o[0-7]+|0x[0-9a-fA-F]+");
  static const std::regex kFloat("[-+]?(\\.[0-9]+|[0-9](_?[0-9])*(\\.[0-9]*)?)([eE][-+]?[0-9]+)?");
  if (std::regex_match(text, kOtherBase)) return parse_int(text.substr(2), text[1] == 'x' ? 16 : 8, text);
  const bool is_int = std::regex_match(text, kDecimal);
  if (!is_int && !std::regex_match(text, kFloat)) return text;
  std::string digits = text.substr(text[0] == '+' ? 1 : 0);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (is_int) return parse_int(digits, 10, text);
  // A number too small for a float is 0; one too large is a mistake.
  const std::optional<double> number = parse_float(digits);
  if (!number || std::isinf(*number)) throw_too_large(text);
  return *number;
}

}  // namespace levin::cli
