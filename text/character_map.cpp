#include "levin/text/character_map.h"

#include <cstring>

#include "levin/core/base/text.h"
#include "levin/text/utf8.h"

namespace levin::detail {

namespace {

/// A node of Darts' double array: the byte that leads to it, where its own are, and whether the bytes up to it are a piece.
struct Unit {
  explicit Unit(std::uint32_t bits) : bits(bits) {}
  std::uint32_t label() const { return bits & (0x80000000U | 0xFFU); }
  std::uint32_t offset() const { return (bits >> 10U) << ((bits & 0x200U) >> 6U); }
  bool ends_piece() const { return (bits & 0x100U) != 0; }
  std::uint32_t value() const { return bits & 0x7FFFFFFFU; }

  std::uint32_t bits;
};

/// Empty for what is no base64.
std::string from_base64(std::string_view text) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;  // of bits that are no byte yet
  for (const char letter : text) {
    const std::size_t digit = kDigits.find(letter);
    if (digit == std::string_view::npos) return "";
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU);
  }
  return bytes;
}

}  // namespace

CharacterMap::CharacterMap(const JsonNode& node) {
  const JsonNode given = node.at("precompiled_charsmap");
  const std::string bytes = from_base64(given.text());
  std::uint32_t size = 0;
  if (bytes.size() < sizeof size) given.fail("is no map of characters in base64");
  std::memcpy(&size, bytes.data(), sizeof size);
  if (size == 0 || size % sizeof(std::uint32_t) != 0 || size > bytes.size() - sizeof size)
    given.fail("is a map of characters that is cut off");
  units_.resize(size / sizeof(std::uint32_t));
  std::memcpy(units_.data(), bytes.data() + sizeof size, size);
  if (append_valid_utf8(texts_, std::string_view(bytes).substr(sizeof size + size)) > 0)
    given.fail("has texts that are no UTF-8");
}

std::string CharacterMap::operator()(std::string_view text, const UnicodeLibrary& unicode) const {
  std::string result;
  result.reserve(text.size());
  std::size_t begin = 0, at = 0;
  char32_t before = 0;
  std::int32_t state = 0;
  for_each_character(text, [&](char32_t character, std::string_view bytes) {
    if (at > begin && unicode.divides(before, character, &state)) {
      append(result, text.substr(begin, at - begin));
      begin = at;
    }
    before = character;
    at += bytes.size();
  });
  if (at > begin) append(result, text.substr(begin, at - begin));
  return result;
}

void CharacterMap::append(std::string& result, std::string_view seen) const {
  constexpr std::size_t kMostBytes = 5;  // as in Hugging Face's library
  if (seen.size() <= kMostBytes) {
    if (const auto replacement = replacement_of(seen)) {
      result += *replacement;
      return;
    }
  }
  for_each_character(seen, [&](char32_t, std::string_view bytes) { result += replacement_of(bytes).value_or(bytes); });
}

std::optional<std::string_view> CharacterMap::replacement_of(std::string_view text) const {
  std::uint32_t place = Unit(units_[0]).offset();
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte == 0) break;
    place ^= byte;
    if (place >= units_.size()) break;
    const Unit unit(units_[place]);
    if (unit.label() != byte) break;
    place ^= unit.offset();
    if (place >= units_.size()) break;
    if (unit.ends_piece()) return text_at(Unit(units_[place]).value());
  }
  return std::nullopt;
}

std::optional<std::string_view> CharacterMap::text_at(std::uint32_t place) const {
  // A damaged map may lead anywhere; the text stays valid UTF-8.
  if (place >= texts_.size() || is_utf8_continuation(texts_[place])) return std::nullopt;
  return std::string_view(texts_.c_str() + place);
}

}  // namespace levin::detail
