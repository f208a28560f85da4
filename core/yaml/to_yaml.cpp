#include "levin/core/yaml/to_yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "levin/core/base/text.h"

namespace levin {
namespace {

// Words that a YAML 1.1 or 1.2 reader takes for null, bool or float.
constexpr std::array<std::string_view, 12> kReservedWords = {"null", "true", "false", "yes", "no",  "on",
                                                             "off",  "y",    "n",     "nan", "inf", "infinity"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

bool is_reserved(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::find(kReservedWords.begin(), kReservedWords.end(), lower) != kReservedWords.end();
}

// True for text that every reader takes for a string without quotes. Narrower than the grammar on purpose: names, paths and
// dotted class paths stay bare, anything doubtful is quoted.
bool is_plain(std::string_view text) {
  if (text.empty() || text.back() == ' ' || is_reserved(text)) return false;
  const bool starts_like_a_name = is_letter(text[0]) || text[0] == '_' || text[0] == '/';
  return starts_like_a_name && std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) ||
                  std::string_view("_-./+ ").find(c) != std::string_view::npos;
         });
}

// What a YAML text may hold of a character: itself, an escape that stands for it, or neither.
enum class Writable { kRaw, kEscaped, kNever };

Writable writable(char32_t point) {
  // The emitter puts U+FFFD in place of these, although Unicode has them as numbers.
  if ((point & 0xfffe) == 0xfffe || (point >= 0xfdd0 && point <= 0xfdef)) return Writable::kNever;
  // To YAML 1.1 these two break lines, and the last is no text.
  return point == 0x2028 || point == 0x2029 || point == 0x7f ? Writable::kEscaped : Writable::kRaw;
}

// How a whole string can be written: as the least writable of its characters.
Writable writable(std::string_view text) {
  Writable least = Writable::kRaw;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return Writable::kNever;
    least = std::max(least, writable(utf8_code_point(text, length)));
    text.remove_prefix(length);
  }
  return least;
}

// YAML 1.1 takes "1e-05" for a string: a float needs a point.
std::string yaml_float(double value) {
  std::string text = float_text(value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

void emit_string(YAML::Emitter& emitter, const std::string& text) {
  if (is_plain(text)) {
    emitter << text;
    return;
  }
  const Writable way = writable(text);
  if (way == Writable::kNever) {
    emitter << YAML::Binary(reinterpret_cast<const unsigned char*>(text.data()), text.size());
    return;
  }
  if (way == Writable::kEscaped) emitter << YAML::EscapeNonAscii;
  emitter << YAML::DoubleQuoted << text;
}

void emit(YAML::Emitter& emitter, const Value& value);

void emit_map(YAML::Emitter& emitter, const Value::Map& map) {
  if (map.empty()) emitter << YAML::Flow;
  emitter << YAML::BeginMap;
  for (const auto& [key, element] : map) {
    if (key.size() > kLongestSimpleKey) emitter << YAML::LongKey;
    emitter << YAML::Key;
    emit_string(emitter, key);
    emitter << YAML::Value;
    emit(emitter, element);
  }
  emitter << YAML::EndMap;
}

void emit_list(YAML::Emitter& emitter, const Value::List& list) {
  if (list.empty()) emitter << YAML::Flow;
  emitter << YAML::BeginSeq;
  for (const Value& element : list) emit(emitter, element);
  emitter << YAML::EndSeq;
}

void emit(YAML::Emitter& emitter, const Value& value) {
  if (value.is_null()) emitter << YAML::LowerNull << YAML::Null;
  if (value.is_bool()) emitter << value.as_bool();
  if (value.is_int()) emitter << value.as_int();
  if (value.is_double()) emitter << yaml_float(value.as_double());
  if (value.is_string()) emit_string(emitter, value.as_string());
  if (value.is_list()) emit_list(emitter, value.as_list());
  if (value.is_map()) emit_map(emitter, value.as_map());
}

}  // namespace

std::string to_yaml(const Value& value) {
  YAML::Emitter emitter;
  emit(emitter, value);
  return std::string(emitter.c_str(), emitter.size()) + "\n";
}

}  // namespace levin
