#include "levin/core/config/to_yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "levin/core/base/format.h"
#include "levin/core/base/text.h"

namespace levin {
namespace {

// Words that a YAML 1.1 or 1.2 reader takes for null, bool or float.
constexpr std::array<std::string_view, 12> kReservedWords = {"null", "true", "false", "yes", "no",  "on",
                                                             "off",  "y",    "n",     "nan", "inf", "infinity"};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

bool is_reserved(std::string_view text) {
  return std::ranges::find(kReservedWords, lowercase(std::string(text))) != kReservedWords.end();
}

// True for text that every reader takes for a string without quotes: names, paths and class paths, and nothing doubtful.
bool is_plain(std::string_view text) {
  if (text.empty() || text.back() == ' ' || is_reserved(text)) return false;
  const bool starts_like_a_name = is_letter(text[0]) || text[0] == '_' || text[0] == '/';
  return starts_like_a_name && std::all_of(text.begin(), text.end(), [](char c) {
           return is_letter(c) || std::isdigit(static_cast<unsigned char>(c)) ||
                  std::string_view("_-./+ ").find(c) != std::string_view::npos;
         });
}

// How a YAML text may hold a character: itself, an escape, or not at all.
enum class Writable { kRaw, kEscaped, kNever };

Writable writable(char32_t point) {
  // The emitter replaces these by U+FFFD, although they are valid code points.
  if ((point & 0xfffe) == 0xfffe || (point >= 0xfdd0 && point <= 0xfdef)) return Writable::kNever;
  // In YAML 1.1 these two break lines, and the last is not text.
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

std::string string_text(const std::string& text) {
  if (is_plain(text)) return text;
  YAML::Emitter emitter;
  const Writable way = writable(text);
  if (way == Writable::kEscaped) emitter << YAML::EscapeNonAscii;
  if (way == Writable::kNever) {
    emitter << YAML::Binary(reinterpret_cast<const unsigned char*>(text.data()), text.size());
  } else {
    emitter << YAML::DoubleQuoted << text;
  }
  return std::string(emitter.c_str(), emitter.size());
}

/// Writes the blocks, in which yaml-cpp's emitter would put comments at the left margin.
class Writer {
 public:
  explicit Writer(const CommentOf& comment_of) : comment_of_(comment_of) {}

  std::string document(const Value& value) {
    if (value.size() == 0) return scalar_text(value) + "\n";
    children(value, 0, /*continues_line=*/false);
    return std::move(text_);
  }

 private:
  /// `continues_line`: the first child continues the line after a "- ".
  void children(const Value& value, std::size_t indent, bool continues_line) {
    const bool in_map = value.is_map();
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Value& child = in_map ? value.as_map()[i].second : value.as_list()[i];
      path_.push_back(in_map ? value.as_map()[i].first : std::to_string(i));
      if (i > 0 || !continues_line) begin_line(indent);
      text_ += in_map ? key_text(path_.back(), indent) : "-";
      text_ += child.size() == 0 ? format(" {}\n", scalar_text(child)) : in_map ? "\n" : " ";
      children(child, indent + 2, /*continues_line=*/!in_map);
      path_.pop_back();
    }
  }

  void begin_line(std::size_t indent) {
    const std::string blanks(indent, ' ');
    for (const std::string& line : split(comment_of_ ? comment_of_(path_) : "", "\n")) {
      if (!line.empty()) text_ += format("{}# {}\n", blanks, line);
    }
    text_ += blanks;
  }

  /// YAML readers look no further than some hundred characters for the colon: a longer key is written with "? ".
  static std::string key_text(const std::string& key, std::size_t indent) {
    constexpr std::size_t kLongestSimpleKey = 128;
    if (key.size() <= kLongestSimpleKey) return string_text(key) + ":";
    return format("? {}\n{}:", string_text(key), std::string(indent, ' '));
  }

  const CommentOf& comment_of_;
  YamlPath path_;
  std::string text_;
};

}  // namespace

std::string to_yaml(const Value& value, const CommentOf& comment_of) { return Writer(comment_of).document(value); }

std::string scalar_text(const Value& value) {
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_int()) return std::to_string(value.as_int());
  if (value.is_double()) return yaml_float(value.as_double());
  if (value.is_string()) return string_text(value.as_string());
  return value.is_null() ? "null" : value.is_list() ? "[]" : "{}";
}

}  // namespace levin
