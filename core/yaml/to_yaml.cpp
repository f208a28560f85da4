#include "levin/core/yaml/to_yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "levin/core/options/float_text.h"

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

// Length of the UTF-8 character at the beginning of `text`, 0 when there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xc2 && lead < 0xe0   ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t index = 1; index < length; ++index) {
    if ((byte(index) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xf0 && byte(1) < 0x90);
  const bool surrogate_or_beyond = (lead == 0xed && byte(1) > 0x9f) || (lead == 0xf4 && byte(1) > 0x8f);
  return overlong || surrogate_or_beyond ? 0 : length;
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// YAML 1.1 takes "1e-05" for a string: a float needs a point.
std::string yaml_float(double value) {
  std::string text = float_text(value);
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) text.insert(exponent, ".0");
  return text;
}

void emit_string(YAML::Emitter& emitter, const std::string& text) {
  if (!is_utf8(text)) {
    emitter << YAML::Binary(reinterpret_cast<const unsigned char*>(text.data()), text.size());
  } else if (is_plain(text)) {
    emitter << text;
  } else {
    emitter << YAML::DoubleQuoted << text;
  }
}

void emit(YAML::Emitter& emitter, const Value& value);

void emit_map(YAML::Emitter& emitter, const Value::Map& map) {
  // YAML readers take a key that stands on its line with its value only up to this length.
  constexpr std::size_t kLongestSimpleKey = 128;
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
