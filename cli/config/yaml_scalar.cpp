#include "levin/cli/config/yaml_scalar.h"

#include <yaml-cpp/binary.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <regex>
#include <string_view>
#include <system_error>
#include <vector>

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

/// What an unquoted YAML scalar means, by YAML 1.2's core schema with two habits of Python's readers: 50_000 is an int, and
/// 1e-3 a float. Everything else (yes, 0:30, 2026-01-01) is a string. Throws ConfigError (without a mark) on a number that does
/// not fit into 64 bits.
Value resolve_plain_scalar(const std::string& text) {
  if (text.empty() || is_one_of(text, {"~", "null", "Null", "NULL"})) return Value();
  if (is_one_of(text, {"true", "True", "TRUE"})) return true;
  if (is_one_of(text, {"false", "False", "FALSE"})) return false;
  if (const auto number = special_float(text)) return *number;

  // Longer texts are not numbers, and std::regex recurses over its input.
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

constexpr std::string_view kTag = "tag:yaml.org,2002:";

// yaml-cpp's decoder takes anything: it reads before its table on a byte of another alphabet, and padding anywhere.
bool is_base64(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
  const std::size_t end = std::min(text.find('='), text.size());
  const bool known_letters = std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
  });
  return known_letters && text.size() % 4 == 0 && text.size() - end <= 2 &&
         text.find_first_not_of('=', end) == std::string::npos;
}

// A scalar with an explicit tag, such as `!!str 5`.
Value tagged_scalar(const Mark& mark, const std::string& tag, const std::string& text) {
  const std::string type = tag.starts_with(kTag) ? tag.substr(kTag.size()) : "";
  if (type == "str") return text;
  if (type == "binary") {
    if (!is_base64(text)) throw ConfigError(mark, "this is not base64, which !!binary needs");
    const std::vector<unsigned char> bytes = YAML::DecodeBase64(text);
    return std::string(bytes.begin(), bytes.end());
  }
  if (!is_one_of(type, {"int", "float", "bool", "null"})) throw_unknown_tag(mark, tag);
  Value value = resolve_plain_scalar(text);
  if (type == "float" && value.is_int()) return value.as_double();
  if (value.type_name() != type) throw ConfigError(mark, "expected " + type + ", as the tag says, got " + describe(value));
  return value;
}

}  // namespace

void throw_unknown_tag(const Mark& mark, const std::string& tag) {
  throw ConfigError(mark, "unknown tag " + quoted_text(tag) +
                              "; YAML's own are known: !!str, !!binary, !!int, !!float, !!bool, !!null, !!map, !!seq");
}

Value read_scalar(const Mark& mark, const std::string& tag, const std::string& text) {
  try {
    // yaml-cpp's tags: "?" for a plain scalar, "!" for a quoted one.
    if (tag == "?" || tag.empty()) {
      Value value = resolve_plain_scalar(text);
      return value.is_number() ? std::move(value).with_written(text) : value;
    }
    return tag == "!" ? Value(text) : tagged_scalar(mark, tag, text);
  } catch (const ConfigError& error) {
    if (error.mark().line > 0) throw;
    throw ConfigError(mark, error.message());
  }
}

std::string key_text(const Mark& mark, const std::string& tag, const std::string& text) {
  const bool is_tagged = tag.size() > 1;
  const Value value = is_tagged ? read_scalar(mark, tag, text) : Value(text);
  return value.is_string() ? value.as_string() : text;
}

}  // namespace levin::cli
