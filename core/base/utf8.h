#pragma once

#include <cstddef>
#include <string_view>

namespace levin {

/// Bytes of the UTF-8 character that `text` begins with; 0 when it begins with none, or is empty. Overlong forms, surrogates
/// and numbers beyond U+10FFFF are no characters.
std::size_t utf8_length(std::string_view text);

/// True for a byte that continues a character, and begins none.
constexpr bool is_utf8_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// The number of the character that the first `length` bytes are; `length` is what utf8_length() gave, not 0.
char32_t utf8_code_point(std::string_view text, std::size_t length);

}  // namespace levin
