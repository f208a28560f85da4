#include "levin/text/utf8.h"

#include <algorithm>
#include <array>

namespace levin::detail {

void append_character(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (character < 0x80) {
    put(character);
  } else if (character < 0x800) {
    put(0xc0 | character >> 6);
    put(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    put(0xe0 | character >> 12);
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  } else {
    put(0xf0 | character >> 18);
    put(0x80 | (character >> 12 & 0x3f));
    put(0x80 | (character >> 6 & 0x3f));
    put(0x80 | (character & 0x3f));
  }
}

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Bytes of the longest part of an invalid text that a character could begin with; 1 at least.
std::size_t broken_length(std::string_view text) {
  const auto byte_at = [&](std::size_t place) { return static_cast<unsigned char>(text[place]); };
  const unsigned first = byte_at(0);
  const std::size_t needed = first >= 0xf0 && first < 0xf5 ? 4 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xc2 ? 2 : 1;
  if (first >= 0xf5 || needed < 3 || text.size() < 2) return 1;
  const unsigned second = byte_at(1);
  const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (second < least || second > most) return 1;
  if (needed == 4 && text.size() > 2 && is_utf8_continuation(text[2])) return 3;
  return 2;
}

}  // namespace

std::size_t append_valid_utf8(std::string& valid, std::string_view text) {
  std::size_t replaced = 0;
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const std::string_view rest = text.substr(at);
    const std::size_t length = utf8_length(rest);
    if (length > 0) {
      at += length;
      continue;
    }
    valid.append(text.substr(begin, at - begin)).append(kReplacement);
    at += broken_length(rest);
    begin = at;
    ++replaced;
  }
  valid.append(text.substr(begin));
  return replaced;
}

bool is_white_space(char32_t character) {
  if (character < 0x80) return character == ' ' || (character >= 0x09 && character <= 0x0d);
  return character == 0x85 || character == 0xa0 || character == 0x1680 || (character >= 0x2000 && character <= 0x200a) ||
         character == 0x2028 || character == 0x2029 || character == 0x202f || character == 0x205f || character == 0x3000;
}

std::string_view without_spaces(std::string_view text, bool left, bool right) {
  std::size_t begin = text.size();
  std::size_t end = 0;
  std::size_t at = 0;
  for_each_character(text, [&](char32_t character, std::string_view bytes) {
    if (!is_white_space(character)) {
      begin = std::min(begin, at);
      end = at + bytes.size();
    }
    at += bytes.size();
  });
  if (!left) begin = 0;
  if (!right) end = text.size();
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

namespace {

struct ByteAlphabet {
  std::array<std::string, 256> characters;
  std::array<int, 0x180> bytes{};

  ByteAlphabet() {
    bytes.fill(-1);
    char32_t next = 0x100;
    for (unsigned byte = 0; byte < 256; ++byte) {
      const bool is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t character = is_printable ? byte : next++;
      append_character(characters[byte], character);
      bytes[character] = static_cast<int>(byte);
    }
  }
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace

std::string_view byte_level_character(unsigned char byte) { return byte_alphabet().characters[byte]; }

int byte_of_character(char32_t character) {
  return character < byte_alphabet().bytes.size() ? byte_alphabet().bytes[character] : -1;
}

void append_byte_level(std::string& text, std::string_view bytes) {
  const ByteAlphabet& alphabet = byte_alphabet();
  for (const char byte : bytes) text += alphabet.characters[static_cast<unsigned char>(byte)];
}

}  // namespace levin::detail
