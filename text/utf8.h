#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "levin/core/base/text.h"

namespace levin::detail {

/// Bytes of the character of valid UTF-8 that begins with this one.
constexpr std::size_t valid_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// Calls `take(code point, its bytes)` for each character of valid UTF-8.
template <class Take>
void for_each_character(std::string_view text, Take take) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t length = valid_length(text[at]);
    const std::string_view bytes = text.substr(at, length);
    take(length == 1 ? static_cast<char32_t>(bytes[0]) : utf8_code_point(bytes, length), bytes);
    at += length;
  }
}

void append_character(std::string& text, char32_t character);

/// Appends the text with each longest part that no character begins with as one U+FFFD, as Python and browsers do. Returns how
/// many.
std::size_t append_valid_utf8(std::string& valid, std::string_view text);

/// True for what Unicode calls white space.
bool is_white_space(char32_t character);

/// The text without white space at its ends.
std::string_view without_spaces(std::string_view text, bool left, bool right);

/// The character that stands for a byte in byte-level vocabularies, as GPT-2 chose them: printable ones for themselves.
std::string_view byte_level_character(unsigned char byte);
/// The byte; -1 for a character that stands for none.
int byte_of_character(char32_t character);
void append_byte_level(std::string& text, std::string_view bytes);

}  // namespace levin::detail
