#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

namespace levin {

/// A float as YAML writes it: the shortest text that reads back to the same bits and is not taken for an int ("1.0", "1e-05",
/// ".inf", "-.inf", ".nan").
std::string float_text(double value);

/// Appends the shortest text that reads back to the same bits and is not taken for an int: "1.0", "1e-05", "inf", "nan".
void append_float(std::string& text, double value);

/// The float that the whole of `text` denotes ("-1.5e3", "inf", "nan"; no sign '+', no blanks), or unset. A number too small
/// for a float becomes 0, one too large an infinity, as in C and Python.
std::optional<double> parse_float(std::string_view text);

/// The text for a terminal: control characters, except line breaks and tabs, and bytes that are not UTF-8 as "\x1b".
std::string printable(std::string_view text);

/// A name or value in an error message: printable, on one line, in single quotes, and cut with "…" after `longest` bytes.
std::string quoted_text(std::string_view text, std::size_t longest = 100);

/// Bytes of the UTF-8 character that `text` begins with, as Unicode defines them (no overlong forms, no surrogates); 0 for
/// none.
std::size_t utf8_length(std::string_view text);

/// True for a byte that continues a character.
constexpr bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// The code point of the first `length` bytes; `length` is the result of utf8_length(), not 0.
char32_t utf8_code_point(std::string_view text, std::size_t length);

/// The text with a to z in place of A to Z; other letters stay, in every locale.
inline std::string lowercase(std::string text) {
  for (char& letter : text) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return text;
}

/// The parts joined by a separator: "a, b, c". `text_of` gives the text of a part that is not a text.
template <class Range, class Projection = std::identity>
std::string join(const Range& parts, std::string_view separator = ", ", Projection text_of = {}) {
  std::string text;
  bool is_first = true;
  for (const auto& part : parts) {
    if (!is_first) text += separator;
    text += std::invoke(text_of, part);
    is_first = false;
  }
  return text;
}

/// The parts between separators, one more than separators.
std::vector<std::string> split(std::string_view text, std::string_view separator);

/// "a@b" for "a%40b" (RFC 3986); invalid codes stay.
std::string percent_decoded(const std::string& text);

/// "1 element", "3 elements"; for nouns with a plural s.
inline std::string counted(std::size_t count, std::string_view noun) {
  return std::to_string(count).append(" ").append(noun).append(count == 1 ? "" : "s");
}

/// The number of single-character insertions, deletions, replacements and swaps of neighbours that turn one text into the
/// other. Upper and lower case count as equal, and so do '-' and '_'.
std::size_t edit_distance(std::string_view left, std::string_view right);

/// The known name that `wrong` most likely is a typo of, or "": never one with another number in it, or the opposite ("min_lr"
/// for "max_lr").
std::string nearest_name(std::string_view wrong, const std::vector<std::string>& known);

/// The end of an error message about an unknown name: "; did you mean 'max_epochs'?", or else every known name.
/// `what` is their plural: "keys", "callbacks".
std::string did_you_mean(std::string_view wrong, const std::vector<std::string>& known, std::string_view what);

/// "'a', 'b', 'c'"
std::string quoted_list(const std::vector<std::string>& names);

/// A class's name without namespaces; those of a template's arguments stay.
std::string class_name_of(const std::type_info& type);
/// With namespaces.
std::string full_class_name_of(const std::type_info& type);

}  // namespace levin
